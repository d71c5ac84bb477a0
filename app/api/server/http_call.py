"""An HTTP call: one request to an inference route, and its response. It replaces the ASGI cycle in uvicorn's protocol."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.gateway.memory.body_memory import UNCOUNTED_BYTES
from providers.canonical.errors import BodyTooLarge, RequestTimedOut
from providers.transport.loop_turns import PIECE_BYTES, LoopTurns

log = logging.getLogger(__name__)

# How much of a body is buffered before reading pauses: the rest is read once the caller is authenticated.
_MAX_BUFFERED_BYTES = UNCOUNTED_BYTES

# Written at once; more is written in turns with other large bodies.
_MAX_WRITE_BYTES = 4 * PIECE_BYTES
# So much of it is taken within the write timeout, or the caller is disconnected.
_TIMED_BYTES = 16 * PIECE_BYTES

Header = tuple[bytes, bytes]
CallHandler = Callable[["HttpCall"], Awaitable[None]]


class CallConnection(Protocol):
    """The connection of a call, as far as the call needs it; app/api/server/inference_protocol.py implements it."""

    transport: asyncio.Transport
    flow: FlowControl
    loop: asyncio.AbstractEventLoop
    tasks: set[asyncio.Task[None]]
    loop_turns: LoopTurns
    write_timeout_s: float

    def on_response_complete(self) -> None: ...


class _NoEvent:
    """Stands in for the event that uvicorn sets to wake an ASGI receive()."""

    def set(self) -> None:
        pass


def body_too_large(limit_bytes: int, declared_bytes: int | None = None) -> BodyTooLarge:
    """`declared_bytes`: the body's size by its Content-Length, if there is one."""
    size = "" if declared_bytes is None else f" of {declared_bytes} bytes"
    return BodyTooLarge(f"The body{size} exceeds the limit of {limit_bytes} bytes.")


class HttpCall:
    """One request and its response over HTTP/1.1. The handler runs as a task, which is cancelled when the caller disconnects.

    `headers`: names in lower case, in the order sent. `peer`: the caller's address, None on a Unix socket. `disconnected`: the caller
    closed the connection before the response ended. `body_bytes`: how many of the body have come. `is_chunked_stream`: its response has
    begun, in chunks of its own lengths. `added_fields`: header lines of its response, whatever that is. `last_sent`: the newest part of a
    stream that was sent with begin_stream() or send(); None: nothing was.
    """

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_expects_100",
        "_fault",
        "_handler",
        "_is_running",
        "_is_sending",
        "_queued",
        "_task",
        "_waiter",
        "added_fields",
        "body_bytes",
        "disconnected",
        "headers",
        "is_chunked_stream",
        "keep_alive",
        "last_sent",
        "message_event",
        "method",
        "more_body",
        "path",
        "peer",
        "response_complete",
        "response_started",
    )

    def __init__(
        self,
        connection: CallConnection,
        handler: CallHandler,
        method: str,
        path: str,
        headers: list[Header],
        peer: str | None,
        *,
        http_1_0: bool,
        keep_alive: bool,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.peer = peer
        self.added_fields = b""
        self.last_sent: bytes | None = None
        self._is_sending = False
        self._connection = connection
        self._handler = handler
        self._task: asyncio.Task[None] | None = None
        self._is_running = False
        self._queued = False
        self._chunked = not http_1_0
        self._expects_100 = False
        self._fault: RequestTimedOut | None = None
        self._body: bytes | BytesIO = b""
        self.body_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        # Read, and in part set, by uvicorn's protocol
        self.more_body = True
        self.keep_alive = keep_alive
        self.disconnected = False
        self.is_chunked_stream = False
        self.response_started = False
        self.response_complete = False
        self.message_event = _NO_EVENT

    # The request

    @property
    def speaks_http_1_1(self) -> bool:
        return self._chunked

    @property
    def is_body_large(self) -> bool:
        """Whether the body is longer than what is buffered of any, or has not come completely."""
        return self.more_body or self.body_bytes > _MAX_BUFFERED_BYTES

    async def read(self, limit_bytes: int, on_growth: Callable[[int], None] | None = None) -> bytes:
        """The complete body. Raises BodyTooLarge as soon as it exceeds the limit, RequestTimedOut if it comes too slowly.

        `on_growth`: called with the number of bytes that have come, as more come; what it raises ends the reading.
        """
        if self._expects_100:
            self._expects_100 = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while self.more_body and self.body_bytes <= limit_bytes:
            if self._fault is not None:
                raise self._fault
            self._connection.flow.resume_reading()
            self._waiter = self._connection.loop.create_future()
            await self._waiter
            if on_growth is not None:
                on_growth(self.body_bytes)
        body, self._body = self._body, b""
        if self.body_bytes > limit_bytes:
            raise body_too_large(limit_bytes)
        return body if isinstance(body, bytes) else body.getvalue()

    # The response. `fields` are header lines, each with its line end.

    async def send_response(self, status: int, fields: bytes, body: bytes) -> None:
        if self._connection.flow.write_paused:
            await self._connection.flow.drain()
        if self.disconnected:
            return
        self.response_started = True
        if self._expects_100 and self.more_body:
            self.keep_alive = False  # a client that never got the 100 may send another request in place of the body
        head = b"%b%bcontent-length: %d\r\n%b\r\n" % (STATUS_LINE[status], fields, len(body), self._last_fields())
        if self.method == "HEAD":
            body = b""
        if len(body) > _MAX_WRITE_BYTES:
            self._connection.transport.write(head)
            await self._write_in_turns(body, lambda piece: piece)
            if self.disconnected:
                return
        else:
            self._connection.transport.write(head + body)
        self._finish()

    async def begin_stream(self, status: int, fields: bytes, first: bytes) -> None:
        """Start a chunked response. For HTTP/1.0 the response ends with the connection."""
        self.last_sent = first
        if self._connection.flow.write_paused:
            await self._connection.flow.drain()
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
        self._connection.transport.write(head + self._chunk(first))

    async def send(self, data: bytes) -> None:
        self.last_sent = data
        if len(data) > _MAX_WRITE_BYTES:
            await self._write_in_turns(data, self._chunk)
            return
        if self._connection.flow.write_paused:
            await self._wait_for_caller()
        if not self.disconnected:
            self._connection.transport.write(self._chunk(data))

    async def end_stream(self, last: bytes) -> None:
        if len(last) > _MAX_WRITE_BYTES:
            await self._write_in_turns(last, self._chunk)
            last = b""
        if self._connection.flow.write_paused:
            await self._wait_for_caller()
        if not self.disconnected:
            self._connection.transport.write(self._chunk(last) + b"0\r\n\r\n" if self._chunked else last)
            self._finish()

    # Between two parts of a stream, whoever sends those.

    @property
    def may_interject(self) -> bool:
        """Whether something may be put between: the caller has taken all that was written, and no part of it is on its way."""
        connection = self._connection
        is_open = not (self.disconnected or self.response_complete or self._is_sending or connection.transport.is_closing())
        return is_open and not connection.flow.write_paused and connection.transport.get_write_buffer_size() == 0

    def interject(self, frames: bytes) -> None:
        """Sends whole frames in a stream that has begun, where may_interject."""
        self._connection.transport.write(self._chunk(frames))

    async def _wait_for_caller(self) -> None:
        """Waits until the caller has taken enough.

        The data that waits keeps its place, and its number, before anything that is interjected.
        """
        self._is_sending = True
        try:
            await self._connection.flow.drain()
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
        connection = self._connection
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
            self._connection.transport.write(frame(data[start : start + PIECE_BYTES]))

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if data and self._chunked else data

    def _last_fields(self) -> bytes:
        return self.added_fields if self.keep_alive else self.added_fields + b"connection: close\r\n"

    def _finish(self) -> None:
        self.response_complete = True
        self._body = b""
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.on_response_complete()

    # Called by the connection

    def on_head(self, *, expects_100: bool, queued: bool) -> None:
        """The head was read. A queued call starts when those before it have ended; another when its body has come, or start_early()."""
        self._expects_100 = expects_100
        self._queued = queued
        if expects_100:
            self._start_task()

    def start_early(self) -> None:
        """The body did not come with the head: who sends it, and whether they may, can be found out before it comes."""
        self._start_task()

    def end_body(self, fault: RequestTimedOut) -> None:
        """The rest of the body is not waited for. Whoever reads it gets the fault, and the connection ends with the response."""
        self._fault = fault
        self.keep_alive = False
        self._start_task()
        self._wake()

    def receive_body(self, block: bytes) -> None:
        if self.response_complete or self.disconnected:
            return
        # Joined at once: with chunks of two bytes, a list would take twenty times the memory. BytesIO gives its bytes away without a copy,
        # which of megabytes would hold up the event loop.
        if not self.body_bytes:
            self._body = block
        else:
            if isinstance(self._body, bytes):
                first, self._body = self._body, BytesIO()
                self._body.write(first)
            self._body.write(block)
        self.body_bytes += len(block)
        if self.body_bytes > _MAX_BUFFERED_BYTES:
            if self._waiter is None:
                self._connection.flow.pause_reading()
            self._start_task()
            self._wake()

    def on_body_complete(self) -> None:
        self.more_body = False
        if not self._queued and self.body_bytes > _MAX_BUFFERED_BYTES:
            self._connection.flow.resume_reading()  # its last block may have come while nobody read: a disconnect would not be noticed
        self._start_task()
        self._wake()

    def dequeue(self) -> None:
        self._queued = False
        self._start_task()

    def on_disconnect(self) -> None:
        if self.response_complete:
            return
        self.disconnected = True
        self._body = b""  # at once: connection, call and task refer to each other until the next garbage collection
        if self._is_running and self._task is not None:
            self._task.cancel()

    def _start_task(self) -> None:
        if self._task is None and not self._queued:
            self._task = self._connection.loop.create_task(self._run())
            self._connection.tasks.add(self._task)

    async def _run(self) -> None:
        assert self._task is not None
        self._is_running = True
        try:
            if not self.disconnected:
                await self._handler(self)
        except asyncio.CancelledError:
            # A task that ends as cancelled keeps the error, whose traceback keeps all that the handler held, the body too.
            if not self.disconnected:
                raise
        except Exception:
            log.exception("unhandled exception in an inference route")
        finally:
            self._is_running = False
            self._connection.tasks.discard(self._task)
            if not self.response_complete and not self.disconnected:
                self._connection.transport.close()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


_NO_EVENT = _NoEvent()
