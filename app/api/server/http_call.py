"""An HTTP call: one request to an inference route, and its response. It replaces the ASGI cycle in uvicorn's protocol."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from io import BytesIO

from app.api.server.call_response import CallConnection, CallResponse
from app.gateway.memory.body_memory import UNCOUNTED_BYTES
from providers.canonical.errors import BodyTooLarge, RequestTimedOut

log = logging.getLogger(__name__)

# How much of a body is buffered before reading pauses: the rest is read once the caller is authenticated.
_MAX_BUFFERED_BYTES = UNCOUNTED_BYTES

Header = tuple[bytes, bytes]
CallHandler = Callable[["HttpCall"], Awaitable[None]]


class _NoEvent:
    """Stands in for the event that uvicorn sets to wake an ASGI receive()."""

    def set(self) -> None:
        pass


def body_too_large(limit_bytes: int, declared_bytes: int | None = None) -> BodyTooLarge:
    """The refusal of a body; `declared_bytes` is its size by its Content-Length, if there is one."""
    size = "" if declared_bytes is None else f" of {declared_bytes} bytes"
    return BodyTooLarge(f"The body{size} exceeds the limit of {limit_bytes} bytes.")


class HttpCall(CallResponse):
    """One request and its response over HTTP/1.1. The handler runs as a task, which is cancelled when the caller disconnects."""

    __slots__ = (
        "_fault",
        "_handler",
        "_is_running",
        "_queued",
        "_task",
        "_waiter",
        "body_bytes",
        "headers",
        "message_event",
        "path",
        "peer",
    )

    def __init__(
        self,
        connection: CallConnection,
        handler: CallHandler,
        method: str,
        path: str,
        headers: list[Header],  # names in lower case, in the order sent
        peer: str | None,  # the caller's address, None on a Unix socket
        *,
        http_1_0: bool,
        keep_alive: bool,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.peer = peer
        self.added_fields = b""
        self.last_sent = None
        self._is_sending = False
        self.connection = connection
        self._handler = handler
        self._task: asyncio.Task[None] | None = None
        self._is_running = False
        self._queued = False
        self._chunked = not http_1_0
        self._expects_100 = False
        self._fault: RequestTimedOut | None = None
        self._body = b""
        self.body_bytes = 0  # how many bytes of the body have come
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

        `on_growth` is called with the number of bytes that have come, as more come; what it raises ends the reading.
        """
        if self._expects_100:
            self._expects_100 = False
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while self.more_body and self.body_bytes <= limit_bytes:
            if self._fault is not None:
                raise self._fault
            self.connection.flow.resume_reading()
            self._waiter = self.connection.loop.create_future()
            await self._waiter
            if on_growth is not None:
                on_growth(self.body_bytes)
        body, self._body = self._body, b""
        if self.body_bytes > limit_bytes:
            raise body_too_large(limit_bytes)
        return body if isinstance(body, bytes) else body.getvalue()

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
                self.connection.flow.pause_reading()
            self._start_task()
            self._wake()

    def on_body_complete(self) -> None:
        self.more_body = False
        if not self._queued and self.body_bytes > _MAX_BUFFERED_BYTES:
            self.connection.flow.resume_reading()  # its last block may have come while nobody read: a disconnect would not be noticed
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
            self._task = self.connection.loop.create_task(self._run())
            self.connection.tasks.add(self._task)

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
            self.connection.tasks.discard(self._task)
            if not self.response_complete and not self.disconnected:
                self.connection.transport.close()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


_NO_EVENT = _NoEvent()
