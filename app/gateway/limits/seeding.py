"""Seeding: fill a calendar bucket from the ledger in Postgres when its period began before Redis's epoch did."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from app.domain.snapshot import Snapshot
from app.gateway.limits.counters import commands
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.rule_matcher import Bucket

_LEDGER_TIMEOUT_S = 5.0


class LedgerUsage(Protocol):
    @property
    def requests(self) -> int: ...

    @property
    def input(self) -> int: ...

    @property
    def output(self) -> int: ...

    @property
    def cost_microusd(self) -> int: ...


class Ledger(Protocol):
    """Recorded usage: what Postgres holds, and what this machine's spool has yet to write to it."""

    async def used(self, scope: Mapping[str, str], since: datetime, snapshot: Snapshot) -> LedgerUsage:
        """Usage since a moment, including every request that ended on this machine before this call.

        `snapshot` says under which other models than the one that it names a request counts, too. Raises one of
        db_errors.DB_UNAVAILABLE_ERRORS.
        """
        ...


class LedgerSeeder:
    """Seeds buckets: one query at a time for each, which concurrent requests share. `snapshot` gives the one in force."""

    def __init__(self, counters: RedisCounters, ledger: Ledger, snapshot: Callable[[], Snapshot]) -> None:
        self._counters = counters
        self._ledger = ledger
        self._snapshot = snapshot
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    async def seed(self, bucket: Bucket, epoch_ms: int, now_ms: int) -> None:
        """Raises one of db_errors.DB_UNAVAILABLE_ERRORS if the ledger cannot be read, RedisUnavailable or RedisReplyError."""
        task = self._tasks.get(bucket.key)
        if task is None:
            task = self._tasks[bucket.key] = asyncio.create_task(self._seed(bucket, epoch_ms, now_ms))
            task.add_done_callback(lambda task: self._task_done(bucket.key, task))
        await asyncio.shield(task)

    def _task_done(self, key: bytes, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio warns when every waiter was cancelled

    async def _seed(self, bucket: Bucket, epoch_ms: int, now_ms: int) -> None:
        start_ms, finish_ms, _ = bucket.rule.period_at(now_ms)
        async with asyncio.timeout(_LEDGER_TIMEOUT_S):
            since_ms = max(start_ms, bucket.rule.since_ms)
            used = await self._ledger.used(bucket.dimensions, datetime.fromtimestamp(since_ms / 1000, UTC), self._snapshot())
        amounts = (used.requests, used.input, used.output, used.input + used.output, used.cost_microusd, 0)
        spent = amounts[bucket.rule.resource - 1]
        await self._counters.call(commands.encode_seed(self._counters.scripts, bucket.key, epoch_ms, start_ms, finish_ms, spent))
