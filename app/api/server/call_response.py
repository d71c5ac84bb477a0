"""The response of an HTTP call, whole or in chunks, as it is written to the call's connection."""

import asyncio
from collections.abc import Callable
from io import BytesIO
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from providers.transport.loop_turns import PIECE_BYTES, LoopTurns
from providers.transport.write_batcher import WriteBatcher

# Written at once; more is written in turns with other large bodies.
_MAX_WRITE_BYTES = 4 * PIECE_BYTES
# So much of it is taken within the write timeout, or the caller is disconnected.
_TIMED_BYTES = 16 * PIECE_BYTES


class CallConnection(Protocol):
    """The connection of a call, as far as the call needs it; app/api/server/inference_protocol.py implements it."""

    transport: asyncio.Transport  # whose writes wait for the end of the event loop's iteration
    flow: FlowControl
    loop: asyncio.AbstractEventLoop
    tasks: set[asyncio.Task[None]]
    loop_turns: LoopTurns
    write_timeout_s: float
    loop_transport: asyncio.WriteTransport  # the event loop's own, to which write_batcher writes
    write_batcher: WriteBatcher

    def on_response_complete(self) -> None: ...

    def write_at_once(self, data: bytes) -> None:
        """Writes without waiting for the end of the iteration, and behind all that was written before."""


class CallResponse:
    """The part of an HttpCall that writes. HttpCall sets all fields: a second constructor would cost each request a call.

    `fields` of its methods are header lines, each with its line end.
    """

    __slots__ = (
        "_body",
        "_chunked",
        "_expects_100",
        "_is_sending",
        "added_fields",
        "connection",
        "disconnected",
        "is_chunked_stream",
        "keep_alive",
        "last_sent",
        "method",
        "more_body",
        "response_complete",
        "response_started",
    )

    method: str
    keep_alive: bool
    more_body: bool  # some of the request's body has not come
    disconnected: bool  # the caller closed the connection before the response ended
    response_started: bool
    response_complete: bool
    is_chunked_stream: bool  # the response has begun, in chunks of its own lengths
    added_fields: bytes  # header lines of the response, whatever that is
    last_sent: bytes | None  # the newest part of a stream that was sent with begin_stream() or send(); None: nothing was
    _body: bytes | BytesIO  # what has come of the request's body, which is let go with the response
    _chunked: bool
    connection: CallConnection
    _expects_100: bool
    _is_sending: bool

    async def send_response(self, status: int, fields: bytes, body: bytes) -> None:
        if self.connection.flow.write_paused:
            await self.connection.flow.drain()
        if self.disconnected:
            return
        self.response_started = True
        if self._expects_100 and self.more_body:
            self.keep_alive = False  # a client that never got the 100 may send another request in place of the body
        head = b"%b%bcontent-length: %d\r\n%b\r\n" % (STATUS_LINE[status], fields, len(body), self._last_fields())
        if self.method == "HEAD":
            body = b""
        if len(body) > _MAX_WRITE_BYTES:
            self.connection.transport.write(head)
            await self._write_in_turns(body, lambda piece: piece)
            if self.disconnected:
                return
        else:
            self.connection.transport.write(head + body)
        self._finish()

    async def begin_stream(self, status: int, fields: bytes, first: bytes) -> None:
        """Start a chunked response. For HTTP/1.0 the response ends with the connection."""
        self.last_sent = first
        if self.connection.flow.write_paused:
            await self.connection.flow.drain()
        if self.disconnected:
            return
        if len(first) > _MAX_WRITE_BYTES:
            self.begin_with(status, fields, b"")
            await self._write_in_turns(first, self._chunk)
        else:
            self.begin_with(status, fields, first)

    def begin_with(self, status: int, fields: bytes, first: bytes) -> None:
        """Starts a chunked response as begin_stream() does, without waiting.

        `first` consists of whole frames and is not large. Call it only where nothing needs to be waited for;
        see may_interject.
        """
        self.response_started = True
        self.is_chunked_stream = self._chunked
        if not self._chunked:
            self.keep_alive = False
        framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        head = b"%b%b%b%b\r\n" % (STATUS_LINE[status], fields, framing, self._last_fields())
        self.connection.transport.write(head + self._chunk(first))

    async def send(self, data: bytes) -> None:
        self.last_sent = data
        if len(data) > _MAX_WRITE_BYTES:
            await self._write_in_turns(data, self._chunk)
            return
        if self.connection.flow.write_paused:
            await self._wait_for_caller()
        if not self.disconnected:
            self.connection.transport.write(self._chunk(data))

    async def end_stream(self, last: bytes) -> None:
        if len(last) > _MAX_WRITE_BYTES:
            await self._write_in_turns(last, self._chunk)
            last = b""
        if self.connection.flow.write_paused:
            await self._wait_for_caller()
        if not self.disconnected:
            self.connection.transport.write(self._chunk(last) + b"0\r\n\r\n" if self._chunked else last)
            self._finish()

    @property
    def is_held_up(self) -> bool:
        """Whether send() would wait for the caller."""
        return self.connection.flow.write_paused

    def send_at_once(self, data: bytes) -> None:
        """Sends a part of a stream that is not large, as send() does, where that would wait for nothing."""
        self.last_sent = data
        self.connection.write_at_once(self._chunk(data))

    # Between two parts of a stream, whoever sends those.

    @property
    def may_interject(self) -> bool:
        """Whether something may be put between: the caller has taken all that was written, and no part of it is on its way."""
        connection = self.connection
        is_open = not (self.disconnected or self.response_complete or self._is_sending or connection.transport.is_closing())
        return is_open and not connection.flow.write_paused and connection.transport.get_write_buffer_size() == 0

    def interject(self, frames: bytes) -> None:
        """Sends whole frames in a stream that has begun, where may_interject."""
        self.connection.transport.write(self._chunk(frames))

    async def _wait_for_caller(self) -> None:
        """Waits until the caller has taken enough.

        The data that waits keeps its place, and its number, before anything that is interjected.
        """
        self._is_sending = True
        try:
            await self.connection.flow.drain()
        finally:
            self._is_sending = False

    async def _write_in_turns(self, data: bytes, frame: Callable[[bytes], bytes]) -> None:
        """Writes a large part of a response piece by piece, until the caller is disconnected, or takes too long for a MiB."""
        self._is_sending = True
        try:
            await self._write_pieces(data, frame)
        finally:
            self._is_sending = False

    async def _write_pieces(self, data: bytes, frame: Callable[[bytes], bytes]) -> None:
        connection = self.connection
        began = connection.loop.time()
        for start in range(0, len(data), PIECE_BYTES):
            if start:
                await connection.loop_turns.wait()
            if connection.flow.write_paused:
                await connection.flow.drain()
            if self.disconnected:
                return
            if not start % _TIMED_BYTES:
                began = connection.loop.time()
            elif connection.loop.time() - began > connection.write_timeout_s:
                connection.transport.abort()
                return
            self.connection.transport.write(frame(data[start : start + PIECE_BYTES]))

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if data and self._chunked else data

    def _last_fields(self) -> bytes:
        return self.added_fields if self.keep_alive else self.added_fields + b"connection: close\r\n"

    def _finish(self) -> None:
        self.response_complete = True
        self._body = b""
        if not self.keep_alive:
            self.connection.transport.close()
        self.connection.on_response_complete()
