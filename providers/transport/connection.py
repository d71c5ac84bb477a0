"""One connection to an engine, as the event loop drives it: it serves an answer, then another, or it ends."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import cast

import httpx

from providers.transport.http1 import InvalidHttpResponse
from providers.transport.response_stream import ResponseStream

# An engine that had closed a kept connection says so within a round trip of our writing on it. If the end comes later, the engine
# may have been at work, and whether to ask again is for those who know what the request costs.
STALE_WITHIN_S = 1.0


class Connection(asyncio.Protocol):
    """Idle, busy with the answer in `stream`, or gone.

    `put_back` hears that it has served its request and may serve another; `forget`, once, that it is closed or was never opened.
    """

    transport: asyncio.Transport

    def __init__(self, address: str, on_idle: "Callable[[Connection], None]", on_closed: "Callable[[Connection], None]") -> None:
        self.loop = asyncio.get_running_loop()  # once, as before CPython 3.12 each look costs a system call
        self.stream: ResponseStream | None = None
        self.served = False
        self.closed = False
        self.keeps_slot = False
        self.idle_since = 0.0
        self.busy_since = 0.0
        self._address = address
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._connected = False
        self._drained: asyncio.Future[None] | None = None

    def abort(self) -> None:
        """Closes the socket now, without flushing or a farewell: the engine sees the hang-up at once."""
        if not self.closed:
            self.closed = True
            self.stream = None
            self._on_closed(self)
            if self._connected:
                self.transport.abort()

    def close_keeping_slot(self) -> None:
        """Closes, and leaves its place among its origin's to the connection that takes over."""
        self.keeps_slot = True
        self.abort()

    def fail(self, kind: type[httpx.TransportError], message: str, closed_by_peer: bool = False) -> None:
        """Fails the answer, if there is one. `ended`: the engine's end of the connection is the reason."""
        stream = self.stream
        self.abort()
        if stream is not None:
            age_s = time.monotonic() - self.busy_since
            stream.fail(kind, f"{message} ({self._address})", stale=closed_by_peer and age_s <= STALE_WITHIN_S)

    async def wait_writable(self) -> None:
        if self._drained is not None:
            await self._drained

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._connected = True
        if self.closed:
            self.transport.abort()
            return
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        stream = self.stream
        if stream is None:  # nobody asked: whatever it is, the next answer must not begin with it
            self.abort()
            return
        try:
            stream.response.feed(data)
        except InvalidHttpResponse as exc:
            self.fail(httpx.RemoteProtocolError, f"Bad answer: {exc}")
            return
        if stream.response.complete:
            self._finish(stream)
        else:
            stream.on_progress()

    def eof_received(self) -> None:
        stream = self.stream
        if stream is None:
            self.abort()
            return
        try:
            stream.response.feed_eof()
        except InvalidHttpResponse as exc:
            self.fail(httpx.RemoteProtocolError, f"Bad answer: {exc}", closed_by_peer=True)
        else:
            self._finish(stream)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if self.closed:
            return
        if exc is None:
            self.eof_received()
        else:
            kind = httpx.WriteError if isinstance(exc, BrokenPipeError) else httpx.ReadError
            self.fail(kind, f"Connection lost: {exc}", closed_by_peer=True)

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _finish(self, stream: ResponseStream) -> None:
        """The answer is whole. The connection serves again only if both sides said so and nothing of the request or answer is left over."""
        response = stream.response
        reusable = response.keep_alive and stream.keep_alive and not response.surplus and stream.body_sender is None
        reusable = reusable and not self.transport.get_write_buffer_size()
        self.stream = None
        stream.finish()
        if reusable:
            self._on_idle(self)
        else:
            self.abort()
