"""AnswerStream: sends a request over its line, then gives the answer's body as it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from math import inf
from typing import Protocol, cast

import httpx

from providers.transport.deadlines import Deadlines
from providers.transport.http1 import PIECE_BYTES, OutgoingRequest, ResponseReader, write_pieces
from providers.transport.write_batcher import WriteBatcher

MAX_QUEUED_BYTES = 256 * 1024  # what may lie unread before the engine is made to wait


class ResponseTooLarge(httpx.TransportError):
    """The answer is longer than its reader was ready to take; the connection is closed."""


class StreamConnection(Protocol):
    """What an answer needs of the connection that it comes over; providers/transport/connection.py is one."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    def abort(self) -> None:
        """Closes now. The answer hears no more of it."""

    def fail(self, kind: type[httpx.TransportError], message: str) -> None:
        """Closes now, and fails the answer."""

    async def wait_writable(self) -> None:
        """Waits while the engine takes less than we write."""


class ResponseStream(httpx.AsyncByteStream):
    """An answer's body: each block as it came, at once, those that came together joined. For one reader; cancelling it closes all.

    Raises httpx.TransportError when the answer ends before its end: a body cut short is never a success. Once closed, also by
    another task while the reader waits, it raises httpx.StreamClosed.
    """

    def __init__(self, outgoing: OutgoingRequest, deadlines: Deadlines, connection: StreamConnection, may_retry: bool) -> None:
        self.response = ResponseReader(outgoing.is_head_request)
        self.keep_alive = outgoing.keep_alive
        self.body_sender: asyncio.Task[None] | None = None
        self._connection: StreamConnection | None = connection
        self._loop = connection.loop
        self._may_retry = may_retry
        self._deadlines = deadlines
        self._waiter: asyncio.Future[None] | None = None
        self._failure: tuple[type[httpx.TransportError], str] | None = None
        self._body_error: Exception | None = None
        self._closed = False
        self._paused = False
        # The sweep's view, so that a block costs no look at the clock
        self._sending = True
        self._unsent_bytes = -1  # never equal at the first look, which therefore sets the first deadline
        self._received = False
        self._deadline = inf

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        response = self.response
        blocks = response.blocks
        while not blocks:
            if self._closed:
                raise httpx.StreamClosed
            if self._failure is not None:
                raise self._error()
            if response.complete:
                raise StopAsyncIteration
            await self._wait_for_progress()
        block = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        blocks.clear()
        response.queued_bytes = 0
        if self._paused:
            self._resume()
        return block

    async def read_all(self, limit_bytes: int) -> bytes:
        """The whole body. Raises AnswerTooLarge, and closes, as soon as it exceeds the limit."""
        response = self.response
        if (
            response.complete and len(response.blocks) == 1 and response.queued_bytes <= limit_bytes
        ):  # as a short answer usually is: no turn for it
            response.queued_bytes = 0
            return response.blocks.pop()
        blocks: list[bytes] = []
        size_bytes = 0
        async for block in self:
            size_bytes += len(block)
            if size_bytes > limit_bytes:
                self.close()
                raise ResponseTooLarge(f"The answer is longer than {limit_bytes} bytes")
            blocks.append(block)
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    def close(self) -> None:
        """Lets go at once: unless the answer has come whole, the engine sees us hang up."""
        self._closed = True
        connection = self._detach()
        if connection is not None:
            connection.abort()
        self.response.discard()
        self._wake()

    async def aclose(self) -> None:
        """As close(); waits for nothing."""
        self.close()

    # The request's way out

    async def send(self, request: httpx.Request, outgoing: OutgoingRequest, write_batcher: WriteBatcher) -> bool:
        """Writes the request and waits for the answer's head. False: the connection was stale, ask again on a new one."""
        connection = cast(StreamConnection, self._connection)
        if outgoing.body is None or len(outgoing.body) > PIECE_BYTES:
            connection.transport.write(outgoing.head)
            self.body_sender = asyncio.create_task(self._send_pieces(connection, request, outgoing))
        else:
            write_batcher.write(connection.transport, outgoing.head + outgoing.body)
        while not self.response.status:
            if self._failure is None:
                await self._wait_for_progress()
            elif self._may_retry:
                return False
            else:
                if self._body_error is not None:
                    raise self._body_error
                error = self._error()
                error.request = request
                raise error
        return True

    async def _send_pieces(self, connection: StreamConnection, request: httpx.Request, outgoing: OutgoingRequest) -> None:
        try:
            async with aclosing(write_pieces(request, outgoing)) as pieces:
                async for piece in pieces:
                    connection.transport.write(piece)
                    await connection.wait_writable()
        except Exception as exc:  # the caller's own, from its iterable; raised to it, unless the answer's head already was
            self.body_sender = None
            self._body_error = exc
            connection.fail(httpx.WriteError, f"The request's body ended in {type(exc).__name__}")
        finally:
            self.body_sender = None

    # What the connection tells

    def on_progress(self) -> None:
        """More of the answer has come."""
        self._received = True
        response = self.response
        if response.queued_bytes > MAX_QUEUED_BYTES and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()
        if (
            response.status >= 400 and self.body_sender is not None
        ):  # refused: it may hang up on an unread body, and take the answer's rest along
            self.body_sender.cancel()
            self.keep_alive = False
        self._wake()

    def finish(self) -> None:
        """The answer is whole."""
        if self._paused:
            self._resume()
        self._detach()
        self._wake()

    def fail(self, kind: type[httpx.TransportError], message: str, stale: bool) -> None:
        """Nothing more will come. `stale`: the connection had ended before it saw the request."""
        self._failure = kind, message
        self._may_retry = self._may_retry and stale and not self.response.started
        self._detach()
        self._wake()

    def find_timeout(self, now: float, connection: StreamConnection) -> tuple[type[httpx.TransportError], str] | None:
        """What has taken too long, if anything has. Between two calls only `_heard` tells that something came."""
        deadlines = self._deadlines
        if now >= deadlines.ends_at:
            return (httpx.WriteTimeout if self._sending else httpx.ReadTimeout), f"No whole answer within {deadlines.total:g} s"
        if self._sending:
            unsent_bytes = connection.transport.get_write_buffer_size()
            if not unsent_bytes and self.body_sender is None:
                self._sending = self._received = False
                self._deadline = now + (deadlines.read if self.response.body_started else deadlines.first)
            elif not unsent_bytes or unsent_bytes != self._unsent_bytes:
                self._unsent_bytes = unsent_bytes
                self._deadline = now + deadlines.write
            elif now >= self._deadline:
                return httpx.WriteTimeout, f"The engine took none of the request for {deadlines.write:g} s"
            return None
        if self._paused or (self._received and (self.response.body_started or not deadlines.has_first_timeout)):
            self._received = False
            self._deadline = now + deadlines.read
        elif now >= self._deadline:
            if deadlines.has_first_timeout and not self.response.body_started:
                return httpx.ReadTimeout, f"No byte of the answer's body within {deadlines.first:g} s"
            return httpx.ReadTimeout, f"Silence for {deadlines.read:g} s"
        return None

    async def _wait_for_progress(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("Two tasks read one answer")
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        except BaseException:
            self._waiter = None
            self.close()
            raise

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _resume(self) -> None:
        self._paused = False
        self._received = True
        if self._connection is not None:
            self._connection.transport.resume_reading()

    def _detach(self) -> StreamConnection | None:
        connection, self._connection = self._connection, None
        if self.body_sender is not None:
            self.body_sender.cancel()
        return connection

    def _error(self) -> httpx.TransportError:
        """A new one each time: an exception that is kept keeps alive the frames it has seen."""
        kind, message = self._failure or (httpx.ReadError, "No failure")
        return kind(message)
