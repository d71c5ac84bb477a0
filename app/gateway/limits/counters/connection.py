"""One connection to Redis or Valkey: commands are sent together at the end of the event loop's iteration, replies come in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import cast

import hiredis

from app.gateway.limits.counters.batches import encode_operation, join_operations
from app.gateway.limits.counters.commands import Operation
from app.gateway.limits.counters.replies import BROKEN, BrokenBucket, RedisReplyError, RedisUnavailable, ReplyWaiter
from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

# Errors that make this connection useless: a replica, or a server that is loading, cannot write, or is full.
# They are returned before anything is done, also from within a script.
_FATAL_ERROR_PREFIXES = ("LOADING", "READONLY", "MASTERDOWN", "NOAUTH", "MISCONF", "TRYAGAIN", "CLUSTERDOWN", "OOM", "BUSY ")
# An event loop that was blocked runs the timer before it reads the replies that have already arrived.
_RECHECK_S = 0.01


class Connection(asyncio.Protocol):
    """A pipelined connection. A reply that takes longer than `timeout_s` ends it, and every waiter gets RedisUnavailable.

    `script` is the hash of batch.lua.
    """

    def __init__(self, write_batcher: WriteBatcher, script: bytes, timeout_s: float, on_lost: Callable[[], None]) -> None:
        self._write_batcher = write_batcher
        self._script = script
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[ReplyWaiter, float]] = deque()
        self._unsent: list[tuple[bytes | Operation, ReplyWaiter]] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_suspect = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes | Operation, waiter: ReplyWaiter) -> None:
        """Send a command or an operation. Raises RedisUnavailable, unsent, if the connection has ended."""
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
                    is_fatal = message.startswith(_FATAL_ERROR_PREFIXES)
                    if not waiter.done():
                        waiter.set_exception(_error(message, is_fatal=is_fatal))
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
            self._transport.write(encode_operation(self._script, request) if type(request) is Operation else request)
        else:
            commands: list[bytes] = []
            for command, waiter in join_operations(self._script, unsent):
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
            if self._is_suspect:
                self.abort()
                return
            self._is_suspect, remaining_s = True, _RECHECK_S
        self._timer = self._loop.call_later(remaining_s, self._check_timeout)


def _error(message: str, *, is_fatal: bool) -> RedisUnavailable | RedisReplyError:
    if is_fatal:
        return RedisUnavailable(message, unsent=True)
    return BrokenBucket(message) if message.startswith(BROKEN) else RedisReplyError(message)
