"""Outbox: operations that Redis must get sooner or later. Sent at once, and again with each new connection until confirmed."""

import asyncio
import contextlib
import logging
from typing import Any

from app.gateway.limits.counters.commands import Operation
from app.gateway.limits.counters.counters import RedisCounters
from app.store.redis.replies import RedisReplyError, RedisUnavailable

log = logging.getLogger(__name__)

_MAX_TRIES = 3  # of an operation to which the server replies with an error


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
    """Idempotent operations that are sent until Redis confirms or refuses them. len() is how many are left."""

    def __init__(self, counters: RedisCounters) -> None:
        self._counters = counters
        self._pending: dict[_PendingOperation, None] = {}
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

    def on_confirmed(self, pending: _PendingOperation) -> None:
        self._pending.pop(pending, None)

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
