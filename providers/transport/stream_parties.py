"""Who stands at the two ends of a ResponseStream: the connection that it comes from, and whoever takes its blocks at once."""

import asyncio
from typing import Protocol

import httpx2


class StreamConnection(Protocol):
    """The part of a connection that a ResponseStream needs; see providers/transport/connection.py."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    def abort(self) -> None:
        """Closes at once, without calling the response."""

    def fail(self, kind: type[httpx2.TransportError], message: str) -> None:
        """Closes at once, and fails the response."""

    async def wait_writable(self) -> None:
        """Waits until the write buffer has room."""


class BlockReceiver(Protocol):
    """Takes blocks of a body as they arrive, while the stream's reader waits for them: so a block wakes no task.

    What it raises, the reader gets.
    """

    def take_chunks(self, data: bytes) -> bool:
        """Takes HTTP chunks, from the end of one on, as take() does. Nothing has changed if it does not."""
        ...

    def take(self, block: bytes) -> bool:
        """Returns whether it has taken the block; if not, the reader gets it. Waits for nothing.

        Whoever has taken a block after which the reader has to go on calls ResponseStream.wake_reader().
        """
        ...
