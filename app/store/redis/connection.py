"""One connection to Redis or Valkey: commands are sent together at the end of the event loop's iteration, replies come in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

import hiredis
from msgspec import Struct

from app.store.redis.replies import RedisReplyError, RedisUnavailable, ReplyWaiter
from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

# Errors that make this connection useless: a replica, or a server that is loading, cannot write, or is full.
# They are returned before anything is done, also from within a script.
_FATAL_ERROR_PREFIXES = ("LOADING", "READONLY", "MASTERDOWN", "NOAUTH", "MISCONF", "TRYAGAIN", "CLUSTERDOWN", "OOM", "BUSY ")
# A slot that has moved is followed by whoever asked for it, unless all that is sent over the connection is about that slot.
_MOVED_PREFIXES = ("MOVED ", "ASK ")
# An event loop that was blocked runs the timer before it reads the replies that have already arrived.
_RECHECK_S = 0.01


R = TypeVar("R")


class RequestFormat(Struct, Generic[R], frozen=True):
    """How requests that are no commands yet become commands, and which errors the server replies to them."""

    encode: Callable[[Any], bytes]  # takes an R; a cast to it would be one more call for each request
    join: Callable[[Sequence[tuple[bytes | R, ReplyWaiter]]], Iterable[tuple[bytes, ReplyWaiter]]]
    read_error: Callable[[str], RedisReplyError]
    is_of_one_slot: bool = False  # whether all requests are about one slot of a cluster: once it has moved, the connection is useless


# Of connections over which commands are sent as they are.
COMMANDS: RequestFormat[bytes] = RequestFormat(bytes, iter, RedisReplyError)


class Connection(asyncio.Protocol, Generic[R]):
    """A pipelined connection. A reply that takes longer than `timeout_s` ends it, and every waiter gets RedisUnavailable."""

    def __init__(
        self, write_batcher: WriteBatcher, request_format: RequestFormat[R], timeout_s: float, on_lost: Callable[[], None]
    ) -> None:
        self._write_batcher = write_batcher
        self._request_format = request_format
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._fatal_prefixes = (*_FATAL_ERROR_PREFIXES, *_MOVED_PREFIXES) if request_format.is_of_one_slot else _FATAL_ERROR_PREFIXES
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[ReplyWaiter, float]] = deque()
        self._unsent: list[tuple[bytes | R, ReplyWaiter]] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_suspect = False
        self._unwritten_bytes = 0  # when the time limit was last checked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, request: bytes | R, waiter: ReplyWaiter) -> None:
        """Send a request. Raises RedisUnavailable, unsent, if the connection has ended."""
        if self._transport is None:
            raise RedisUnavailable("The connection has ended.", unsent=True)
        # Before this iteration's responses: a caller who has read one may send the next request to another worker at once, and must find
        # the reservation settled.
        if not self._unsent:
            self._write_batcher.call_before_flush(self._write)
        self._unsent.append((request, waiter))

    def data_received(self, data: bytes) -> None:
        self._is_suspect = False
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                waiter, _ = self._waiting.popleft()
                if type(reply) is hiredis.ReplyError:
                    message = str(reply)
                    is_fatal = message.startswith(self._fatal_prefixes)
                    if not waiter.done():
                        waiter.set_exception(
                            RedisUnavailable(message, unsent=True) if is_fatal else self._request_format.read_error(message)
                        )
                    if is_fatal:
                        log.warning("Redis cannot run commands, so it counts as unavailable", extra={"reply": message})
                        self.abort()
                        return
                elif not waiter.done():
                    waiter.set_result(reply)
        except (hiredis.ProtocolError, IndexError):  # another protocol, or a reply without a command
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._close()

    def _write(self) -> None:
        if self._transport is None:
            return
        unsent, self._unsent = self._unsent, []
        now_s = self._loop.time()
        if len(unsent) == 1:
            request, waiter = unsent[0]
            self._waiting.append((waiter, now_s))
            self._transport.write(request if type(request) is bytes else self._request_format.encode(request))
        else:
            commands: list[bytes] = []
            for command, waiter in self._request_format.join(unsent):
                commands.append(command)
                self._waiting.append((waiter, now_s))
            self._transport.write(b"".join(commands))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._check_timeout)

    def _close(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        lost = RedisUnavailable("The connection broke, or the server was silent.")
        while self._waiting:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(lost)
        unsent, self._unsent = self._unsent, []
        for _, waiter in unsent:
            if not waiter.done():
                waiter.set_exception(RedisUnavailable("The connection broke.", unsent=True))
        self._on_lost()

    def _check_timeout(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        remaining_s = self._waiting[0][1] + self._timeout_s - self._loop.time()
        if remaining_s <= 0:
            assert self._transport is not None
            unwritten_bytes, before = self._transport.get_write_buffer_size(), self._unwritten_bytes
            self._unwritten_bytes = unwritten_bytes
            # A large value that is still being sent is no silence.
            if self._is_suspect and not 0 < unwritten_bytes < before:
                self.abort()
                return
            self._is_suspect, remaining_s = True, _RECHECK_S
        self._timer = self._loop.call_later(remaining_s, self._check_timeout)
