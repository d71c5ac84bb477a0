"""ResponseStream: sends a request over a connection, then yields the response's body as it arrives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from io import BytesIO
from math import inf
from typing import cast

import httpx2

from providers.transport.deadlines import Deadlines
from providers.transport.http1_request import PIECE_BYTES, OutgoingRequest, write_pieces
from providers.transport.http1_response import ResponseReader
from providers.transport.loop_turns import LoopTurns
from providers.transport.stream_parties import BlockReceiver, StreamConnection
from providers.transport.timed_stream import TimedStream
from providers.transport.write_batcher import WriteBatcher

MAX_BLOCK_BYTES = 16 * 1024  # a hundred events of a stream, which take one or two milliseconds
MAX_QUEUED_BYTES = 256 * 1024  # the unread bytes beyond which reading is paused, so that the engine waits


class ResponseTooLarge(httpx2.TransportError):
    """The response is longer than its reader allows; the connection is closed."""


class ResponseStream(TimedStream, httpx2.AsyncByteStream):
    """The body of a response, block by block as they arrive; blocks that arrived together are joined, up to MAX_BLOCK_BYTES.

    Where there is a `receiver`, it takes what arrives while the reader waits, and the reader goes on at the end, at a
    fault, and with what was not taken.

    For one reader; cancelling it closes the connection. Raises httpx2.TransportError if the response ends early: a
    truncated body is never a success. After close(), even by another task while the reader waits, it raises
    httpx2.StreamClosed.
    """

    def __init__(
        self, outgoing: OutgoingRequest, deadlines: Deadlines, connection: StreamConnection, may_retry: bool, loop_turns: LoopTurns
    ) -> None:
        self.response = ResponseReader(outgoing.is_head_request)
        self.keep_alive = outgoing.keep_alive
        self.body_sender: asyncio.Task[None] | None = None
        self.receiver: BlockReceiver | None = None
        self._connection: StreamConnection | None = connection
        self._loop = connection.loop
        self._may_retry = may_retry
        self._deadlines = deadlines
        self._loop_turns = loop_turns
        self.waiter: asyncio.Future[None] | None = None  # of the reader, while there is nothing for it
        self._failure: tuple[type[httpx2.TransportError], str] | None = None
        self._body_error: Exception | None = None
        self._receiver_error: Exception | None = None
        self._closed = False
        self._paused = False
        # For the sweep, so that a block needs no call of the clock
        self._sending = True  # this and what follows: see TimedStream
        self._unsent_bytes = -1  # unequal at the first sweep, which therefore sets the first deadline
        self.received = False
        self._deadline = inf

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        response = self.response
        blocks = response.blocks
        while not blocks:
            if self._closed:
                raise httpx2.StreamClosed
            if self._receiver_error is not None:
                raise self._receiver_error
            if self._failure is not None:
                raise self._error()
            if response.complete:
                raise StopAsyncIteration
            await self._wait_for_progress()
        if response.queued_bytes > MAX_BLOCK_BYTES:
            return await self._next_of_many()
        return self._take_all()

    def _take_all(self) -> bytes:
        response = self.response
        blocks = response.blocks
        block = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        blocks.clear()
        response.queued_bytes = 0
        if self._paused:
            self._resume()
        return block

    async def _next_of_many(self) -> bytes:
        """Returns the next block at a later turn of the event loop, because whoever reads works on what it gets at once."""
        await self._wait_for_turn()
        response = self.response
        blocks = response.blocks
        count = size_bytes = 0
        while count < len(blocks) and (not count or size_bytes + len(blocks[count]) <= MAX_BLOCK_BYTES):
            size_bytes += len(blocks[count])
            count += 1
        block = b"".join(blocks[:count])
        if len(block) > MAX_BLOCK_BYTES:
            blocks[0], block = block[MAX_BLOCK_BYTES:], block[:MAX_BLOCK_BYTES]
        else:
            del blocks[:count]
        response.queued_bytes -= len(block)
        if self._paused and not blocks:
            self._resume()
        return block

    async def peek(self) -> bytes:
        """The first bytes of the body, once some have come; they stay unread. Empty for a body without any, or one that failed."""
        response = self.response
        while not response.blocks:
            if self._closed or self._failure is not None or response.complete:
                return b""
            await self._wait_for_progress()
        return response.blocks[0]

    async def read_all(self, limit_bytes: int) -> bytes:
        """The complete body. Raises ResponseTooLarge, and closes the connection, as soon as it exceeds the limit."""
        response = self.response
        # Most short responses: they need no iteration of the event loop.
        if response.complete and len(response.blocks) == 1 and response.queued_bytes <= limit_bytes:
            response.queued_bytes = 0
            return response.blocks.pop()
        body = BytesIO()  # it gives its bytes away without a copy, which of megabytes would hold up the event loop
        while not response.complete or response.blocks or self._closed:
            if self._closed:
                raise httpx2.StreamClosed
            if response.queued_bytes > MAX_BLOCK_BYTES and not response.complete:
                await self._wait_for_turn()
            if response.blocks:
                body.write(self._take_all())
            elif self._failure is not None:
                raise self._error()
            else:
                await self._wait_for_progress()
            if body.tell() > limit_bytes:
                self.close()
                raise ResponseTooLarge(f"The response is longer than {limit_bytes} bytes")
        return body.getvalue()

    async def _wait_for_turn(self) -> None:
        try:
            await self._loop_turns.wait()
        except BaseException:
            self.close()
            raise
        if self._closed:
            raise httpx2.StreamClosed

    def close(self) -> None:
        """Closes at once. Unless the response is complete, the connection is closed too, and the engine notices."""
        self._closed = True
        connection = self._detach()
        if connection is not None:
            connection.abort()
        self.response.discard()
        self._wake()

    async def aclose(self) -> None:
        """See close(); waits for nothing."""
        self.close()

    # Sending the request

    async def send(self, request: httpx2.Request, outgoing: OutgoingRequest, write_batcher: WriteBatcher) -> bool:
        """Writes the request and waits for the response's head. False: the connection was stale; send it again on a new one.

        Raises httpx2.TransportError, and what the request's own body iterator raises.
        """
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

    async def _send_pieces(self, connection: StreamConnection, request: httpx2.Request, outgoing: OutgoingRequest) -> None:
        try:
            async with aclosing(write_pieces(request, outgoing)) as pieces:
                async for piece in pieces:
                    connection.transport.write(piece)
                    await asyncio.sleep(0)  # to a fast reader, all pieces could be written in one turn of the event loop
                    await connection.wait_writable()
        except Exception as exc:  # of the caller's iterator; send() raises it, unless it has already returned
            self.body_sender = None
            self._body_error = exc
            connection.fail(httpx2.WriteError, f"The request's body ended in {type(exc).__name__}")
        finally:
            self.body_sender = None

    # Called by the connection

    def on_progress(self) -> None:
        """More of the response has arrived."""
        self.received = True
        response = self.response
        if response.queued_bytes > MAX_QUEUED_BYTES and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()
        # The request was rejected: the engine may close the connection on an unread body, and the rest of the response would be lost.
        if response.status >= 400 and self.body_sender is not None:
            self.body_sender.cancel()
            self.keep_alive = False
        is_short = self.waiter is not None and response.queued_bytes <= MAX_BLOCK_BYTES
        if self.receiver is None or not is_short or not self._is_taken(self.receiver):
            self._wake()

    def _is_taken(self, receiver: BlockReceiver) -> bool:
        response = self.response
        if not response.blocks:  # a part of a chunk's header
            return True
        block = self._take_all()
        try:
            is_taken = receiver.take(block)
        except Exception as error:
            self.fail_reader(error)
            return True
        if not is_taken:
            response.blocks.append(block)
            response.queued_bytes = len(block)
        return is_taken

    def fail_reader(self, error: Exception) -> None:
        """The receiver has failed: the event loop would close the connection, and the reader would not learn why."""
        self._receiver_error = error
        self.response.discard()
        self._wake()

    def wake_reader(self) -> None:
        """Called by the receiver within take(): the reader goes on, with an empty block."""
        self.receiver = None
        self.response.blocks.append(b"")
        self._wake()

    def finish(self) -> None:
        """The response is complete."""
        if self._paused:
            self._resume()
        self._detach()
        self._wake()

    def fail(self, kind: type[httpx2.TransportError], message: str, stale: bool) -> None:
        """No more of the response will arrive. `stale` says that the connection was closed before the engine read the request."""
        self._failure = kind, message
        self._may_retry = self._may_retry and stale and not self.response.started
        self._detach()
        self._wake()

    async def _wait_for_progress(self) -> None:
        if self.waiter is not None:
            raise RuntimeError("Two tasks read one response")
        waiter = self.waiter = self._loop.create_future()
        try:
            await waiter
        except BaseException:
            self.waiter = None
            self.close()
            raise

    def _wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _resume(self) -> None:
        self._paused = False
        self.received = True
        if self._connection is not None:
            self._connection.transport.resume_reading()

    def _detach(self) -> StreamConnection | None:
        connection, self._connection = self._connection, None
        if self.body_sender is not None:
            self.body_sender.cancel()
        return connection

    def _error(self) -> httpx2.TransportError:
        """A new exception each time: a stored one would keep alive all frames of its traceback."""
        kind, message = self._failure or (httpx2.ReadError, "No failure")
        return kind(message)
