"""Connection: one connection to an engine, driven by the event loop; it serves one request after another until it closes."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import cast

import httpx2

from providers.transport.http1_response import InvalidHttpResponse
from providers.transport.response_stream import ResponseStream

# If an engine had closed a kept connection, we learn it within a round trip of writing to it. If the end comes later, the engine may have
# worked on the request, and whether to send it again is for the caller to decide, who knows its cost.
STALE_WITHIN_S = 1.0


class Connection(asyncio.Protocol):
    """A connection that is idle, busy with the response in `stream`, or closed.

    `on_idle` is called when it has served a request and may serve another; `on_closed`, once, when it is closed or could not be opened.
    """

    transport: asyncio.Transport

    def __init__(self, address: str, on_idle: "Callable[[Connection], None]", on_closed: "Callable[[Connection], None]") -> None:
        self.loop = asyncio.get_running_loop()  # cached: before CPython 3.12 each call makes a system call
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
        """Closes the socket at once, without flushing or a TLS close: the engine notices immediately."""
        if not self.closed:
            self.closed = True
            self.stream = None
            self._on_closed(self)
            if self._connected:
                self.transport.abort()

    def close_keeping_slot(self) -> None:
        """Closes it and leaves its slot at the origin to the connection that replaces it."""
        self.keeps_slot = True
        self.abort()

    def fail(self, kind: type[httpx2.TransportError], message: str, closed_by_peer: bool = False) -> None:
        """Closes it and fails its response, if it is busy. `closed_by_peer` says that the engine closed the connection."""
        stream = self.stream
        self.abort()
        if stream is not None:
            age_s = time.monotonic() - self.busy_since
            stream.fail(kind, f"{message} ({self._address})", stale=closed_by_peer and age_s <= STALE_WITHIN_S)

    async def wait_writable(self) -> None:
        """Waits until the write buffer has room."""
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
        if stream is None:  # unrequested bytes: the next response must not begin with them
            self.abort()
            return
        receiver = stream.receiver
        if receiver is not None and stream.waiter is not None and stream.response.is_between_chunks:
            try:
                is_taken = receiver.take_chunks(data)
            except Exception as error:
                stream.fail_reader(error)
                return
            if is_taken:
                stream.received = True
                return
        try:
            stream.response.feed(data)
        except InvalidHttpResponse as exc:
            self.fail(httpx2.RemoteProtocolError, f"Invalid response: {exc}")
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
            self.fail(httpx2.RemoteProtocolError, f"Invalid response: {exc}", closed_by_peer=True)
        else:
            self._finish(stream)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if self.closed:
            return
        if exc is None:
            self.eof_received()
        else:
            kind = httpx2.WriteError if isinstance(exc, BrokenPipeError) else httpx2.ReadError
            self.fail(kind, f"Connection lost: {exc}", closed_by_peer=True)

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _finish(self, stream: ResponseStream) -> None:
        """The response is complete. The connection is reused only if both sides allow it and nothing of the request or response is left."""
        response = stream.response
        reusable = response.keep_alive and stream.keep_alive and not response.surplus and stream.body_sender is None
        reusable = reusable and not self.transport.get_write_buffer_size()
        self.stream = None
        stream.finish()
        if reusable:
            self._on_idle(self)
        else:
            self.abort()
