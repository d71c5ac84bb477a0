"""uvicorn's HTTP protocol, whose answers leave in one write: head and body of an answer are one packet and one system call, not two."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Corked:
    """A transport that holds what is written until the running callback is done; everything else is the transport's own.

    A system call costs more processor time than all that we do to a chunk; nothing waits longer than the rest of one turn of the loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held:
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))


class CorkedProtocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, Corked(transport, self.loop)))
