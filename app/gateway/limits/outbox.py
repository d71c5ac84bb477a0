"""Outbox: operations that Redis must get sooner or later. Sent at once, and again with each new connection until confirmed."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from typing import Any, cast

from app.gateway.limits.counters.commands import FORCE, Amounts, Operation
from app.gateway.limits.counters.counters import RedisCounters
from app.store.redis.replies import RedisReplyError, RedisUnavailable

log = logging.getLogger(__name__)

_MAX_TRIES = 3  # of an operation to which the server replies with an error
# What was confirmed less than this before a server failed may be missing in the one that takes over. A settled reservation is known as
# such for a minute (see settle.lua), so that one that is not missing is not counted twice.
_KEPT_S = 4.0


class _PendingOperation:
    """Receives its reply as a future does, but nothing awaits it."""

    __slots__ = ("_outbox", "error_count", "operation")

    def __init__(self, outbox: "Outbox", operation: Operation) -> None:
        self._outbox = outbox
        self.operation = operation
        self.error_count = 0

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        self._outbox.on_confirmed(self)

    def set_exception(self, exception: Exception, /) -> None:
        if isinstance(exception, RedisReplyError):  # any other: it is sent again with the next connection
            self._outbox.on_refused(self, exception)


class Outbox:
    """Settlements that are sent until Redis confirms or refuses them. len() is how many are left."""

    def __init__(self, counters: RedisCounters) -> None:
        self._counters = counters
        self._pending: dict[_PendingOperation, None] = {}
        self._confirmed: deque[tuple[float, Operation]] = deque()  # of late, where another server may take over
        self._loading: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def post(self, operation: Operation) -> None:
        pending = _PendingOperation(self, operation)
        self._pending[pending] = None
        if self._counters.is_ready:
            with contextlib.suppress(RedisUnavailable):
                self._counters.send(operation, pending)

    def resend(self) -> None:
        """Sends everything that is not confirmed, in the order in which it was posted. Raises RedisUnavailable."""
        for pending in list(self._pending):
            self._counters.send(pending.operation, pending)

    async def report_again(self) -> None:
        """Reports to a server that took over what the one before may have been told last: what it knows already, it counts once.

        Raises RedisUnavailable.
        """
        operations = [operation for _, operation in self._confirmed] + [pending.operation for pending in self._pending]
        replies: list[asyncio.Future[Any]] = []
        for operation in operations:
            spent = cast(Amounts, operation.numbers[2:])
            if spent[0]:  # else it was cancelled
                replies.append(self._counters.send_command(operation.bucket_set.take(operation.reservation_id, spent, FORCE)))
            replies.append(self._counters.send_command(operation))
        for result in await asyncio.gather(*replies, return_exceptions=True):
            if isinstance(result, RedisUnavailable):
                raise result
            if isinstance(result, RedisReplyError):
                log.error("Redis refused an operation of the limits after a failover", extra={"reply": str(result)})

    def on_confirmed(self, pending: _PendingOperation) -> None:
        self._pending.pop(pending, None)
        if self._counters.may_move:
            now_s = time.monotonic()
            self._confirmed.append((now_s, pending.operation))
            while self._confirmed[0][0] < now_s - _KEPT_S:
                self._confirmed.popleft()

    def on_refused(self, pending: _PendingOperation, why: RedisReplyError) -> None:
        pending.error_count += 1
        if str(why).startswith("NOSCRIPT") and pending.error_count < _MAX_TRIES:
            if self._loading is None or self._loading.done():
                self._loading = asyncio.create_task(self._load())
        else:
            log.error("Redis refused an operation of the limits", extra={"reply": str(why)})
            self._pending.pop(pending, None)

    async def _load(self) -> None:
        with contextlib.suppress(RedisUnavailable, RedisReplyError):
            await self._counters.load_scripts()
            self.resend()
