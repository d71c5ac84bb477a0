"""One connection to Redis or Valkey: commands go out with the turn of the event loop, replies come back in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

import hiredis

from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

# Errors after which nothing better is to be expected of this connection: a replica, a server that is loading, cannot write, or is full.
# They come before anything is done, also from within a script.
_FATAL_ERROR_PREFIXES = ("LOADING", "READONLY", "MASTERDOWN", "NOAUTH", "MISCONF", "TRYAGAIN", "CLUSTERDOWN", "OOM", "BUSY ")
# A loop that was held up finds the timer first and the replies, which have long been there, second.
_RECHECK_S = 0.01


class RedisUnavailable(Exception):
    """The server cannot be asked, or has not answered. Whether it did what it was told is not known, unless `unsent`."""

    def __init__(self, reason: str, *, unsent: bool = False) -> None:
        super().__init__(reason)
        self.unsent = unsent


class RedisReplyError(Exception):
    """The server answered with an error."""


class ReplyWaiter(Protocol):
    """Who waits for a reply; a Future is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


class Connection(asyncio.Protocol):
    """send() and wait. A reply that does not come within `timeout_s` ends the connection, and all who wait are told Away."""

    def __init__(self, write_batcher: WriteBatcher, timeout_s: float, on_lost: Callable[[], None]) -> None:
        self._write_batcher = write_batcher
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[ReplyWaiter, float]] = deque()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_suspect = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, command: bytes, waiter: ReplyWaiter) -> None:
        """Raises Away, unsent, if the connection has ended."""
        if self._transport is None:
            raise RedisUnavailable("The connection has ended.", unsent=True)
        self._waiting.append((waiter, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._check_timeout)
        # Before the turn's answers: who has read one may ask again at once, of another worker, and must find his place free.
        if not self._unsent:
            self._write_batcher.call_before_flush(self._write)
        self._unsent.append(command)

    def data_received(self, data: bytes) -> None:
        self._is_suspect = False
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                waiter, _ = self._waiting.popleft()
                if isinstance(reply, hiredis.ReplyError):
                    message = str(reply)
                    is_fatal = message.startswith(_FATAL_ERROR_PREFIXES)
                    if not waiter.done():
                        waiter.set_exception(RedisUnavailable(message, unsent=True) if is_fatal else RedisReplyError(message))
                    if is_fatal:
                        log.warning("Redis cannot do what it is asked for: it counts as away", extra={"said": message})
                        self.abort()
                        return
                elif not waiter.done():
                    waiter.set_result(reply)
        except (hiredis.ProtocolError, IndexError):  # it speaks something else, or speaks unasked
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._close()

    def _write(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.write(b"".join(unsent))

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
