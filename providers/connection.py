"""One connection to an engine, as the event loop drives it: it serves an answer, then another, or it ends."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import cast

import httpx

from providers.answer_stream import AnswerStream
from providers.h1 import BadAnswer

# An engine that had closed a kept connection says so within a round trip of our writing on it. If the end comes later, the engine
# may have been at work, and whether to ask again is for those who know what the request costs.
STALE_WITHIN_S = 1.0


class Connection(asyncio.Protocol):
    """Idle, busy with the answer in `stream`, or gone.

    `put_back` hears that it has served its request and may serve another; `forget`, once, that it is closed or was never opened.
    """

    transport: asyncio.Transport

    def __init__(self, address: str, put_back: "Callable[[Connection], None]", forget: "Callable[[Connection], None]") -> None:
        self.loop = asyncio.get_running_loop()  # once, as before CPython 3.12 each look costs a system call
        self.stream: AnswerStream | None = None
        self.served = False
        self.gone = False
        self.place_is_kept = False
        self.idle_since = 0.0
        self.busy_since = 0.0
        self._address = address
        self._put_back = put_back
        self._forget = forget
        self._made = False
        self._drained: asyncio.Future[None] | None = None

    def abort(self) -> None:
        """Closes the socket now, without flushing or a farewell: the engine sees the hang-up at once."""
        if not self.gone:
            self.gone = True
            self.stream = None
            self._forget(self)
            if self._made:
                self.transport.abort()

    def make_room(self) -> None:
        """Closes, and leaves its place among its origin's to the connection that takes over."""
        self.place_is_kept = True
        self.abort()

    def lose(self, kind: type[httpx.TransportError], message: str, ended: bool = False) -> None:
        """Fails the answer, if there is one. `ended`: the engine's end of the connection is the reason."""
        stream = self.stream
        self.abort()
        if stream is not None:
            age_s = time.monotonic() - self.busy_since
            stream.fail(kind, f"{message} ({self._address})", stale=ended and age_s <= STALE_WITHIN_S)

    async def writable(self) -> None:
        if self._drained is not None:
            await self._drained

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._made = True
        if self.gone:
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
            stream.answer.feed(data)
        except BadAnswer as exc:
            self.lose(httpx.RemoteProtocolError, f"Bad answer: {exc}")
            return
        if stream.answer.complete:
            self._finish(stream)
        else:
            stream.news()

    def eof_received(self) -> None:
        stream = self.stream
        if stream is None:
            self.abort()
            return
        try:
            stream.answer.feed_eof()
        except BadAnswer as exc:
            self.lose(httpx.RemoteProtocolError, f"Bad answer: {exc}", ended=True)
        else:
            self._finish(stream)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if self.gone:
            return
        if exc is None:
            self.eof_received()
        else:
            kind = httpx.WriteError if isinstance(exc, BrokenPipeError) else httpx.ReadError
            self.lose(kind, f"Connection lost: {exc}", ended=True)

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _finish(self, stream: AnswerStream) -> None:
        """The answer is whole. The connection serves again only if both sides said so and nothing of the request or answer is left over."""
        answer = stream.answer
        reusable = answer.keep_alive and stream.keep_alive and not answer.surplus and stream.pump is None
        reusable = reusable and not self.transport.get_write_buffer_size()
        self.stream = None
        stream.end()
        if reusable:
            self._put_back(self)
        else:
            self.abort()
