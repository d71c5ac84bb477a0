"""Rebuilding: after Redis has lost its memory, windows are filled from the records, and rules that refuse until then are told.

Every worker tells Redis when the records of its machine are stored. Once all have, one of them, whichever is first, reads what was used
and fills all windows; until then they count as full (take.lua).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct

from app.domain.snapshot import Snapshot
from app.gateway.limits.counters.commands import encode_rebuild
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.counters.scripts import REBUILT_PREFIX, STORED_PREFIX
from app.gateway.limits.loss import LossState, describe_loss, find_full_rules, slot_amounts
from app.gateway.limits.rules import CLOCK_MARGIN_MS, MAX_WINDOW_MS, WINDOW, Rule, RuleTable
from app.process.background_tasks import BackgroundTask
from app.process.telemetry import Telemetry
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from app.store.usage.by_slot import SlotUsage, Subject

log = logging.getLogger(__name__)

_CHECK_EVERY_S = 1.0
_CHECK_UNTIL_PASSED_EVERY_S = 5.0
_POSTGRES_TIMEOUT_S = 2.0  # while requests wait for a new connection to Redis
_BATCH_SIZE = 500
_KEEP_MS = 7_200_000  # longer than any window
_MAX_NAMES = 10
_IN_FLIGHT = "requests in progress to be counted again"
# After Postgres was away, its list of living workers is empty until each of them has reported there again.
_REAPPEAR_S = 30.0


class SlotReader(Protocol):
    def read(
        self, dimensions: Sequence[str], window_ms: int, before_ms: int, snapshot: Snapshot
    ) -> AsyncIterator[tuple[Subject, list[SlotUsage]]]: ...


class RecentLedger(Protocol):
    """Recorded usage of a moment ago. Each raises one of db_errors.DB_UNAVAILABLE_ERRORS."""

    async def is_stored(self) -> bool:
        """Whether all requests that had ended on this machine at the call are in Postgres; waits a while for that."""
        ...

    async def workers(self) -> Collection[str]:
        """The workers of all machines that are alive."""
        ...

    def open_usage_by_slot(self) -> AbstractAsyncContextManager[SlotReader | None]:
        """Opens a reader of the usage of each slot, or gives None if another process reads it."""
        ...


class LimitedRules(Struct, frozen=True):
    """The rules in force."""

    table: RuleTable
    snapshot: Snapshot  # of their configuration, as a request may count under its model's fallbacks, too


class WindowRebuilder:
    """Looks after a loss of memory from check_soon() until all windows are rebuilt or have passed; `loss` is what it found last.

    `worker` is this worker's id. `epoch_ms` gives the start of Redis's epoch as far as it is known; 0 means that nothing was lost before
    it.
    """

    def __init__(
        self,
        counters: RedisCounters,
        ledger: RecentLedger,
        telemetry: Telemetry,
        lease_ms: int,
        worker: str,
        epoch_ms: Callable[[], int | None],
        rules: Callable[[], LimitedRules],
    ) -> None:
        self.loss: LossState | None = None
        self.background_task = BackgroundTask("lost windows", self._keep_checking)
        self._counters = counters
        self._ledger = ledger
        self._telemetry = telemetry
        self._lease_ms = lease_ms
        self._worker = worker
        self._epoch_ms = epoch_ms
        self._rules = rules
        self._changed = asyncio.Event()
        self._stored_epoch_ms: int | None = None
        self._waiting_for = _IN_FLIGHT
        self._missing: list[str] = []
        self._reconnections = 0
        self._postgres_failed_s = -_REAPPEAR_S  # by time.monotonic()

    def check_soon(self) -> None:
        """The epoch of Redis, or the rules, have changed."""
        self._changed.set()

    async def find_rules_counted_by_records(self) -> Collection[str]:
        """Ids of the rules whose windows will be filled with all that this machine has recorded so far, so that it need not be reported.

        They are not rebuilt yet, and that waits for this worker, which Postgres has seen and which has yet to report. Raises
        RedisUnavailable or RedisReplyError.
        """
        epoch_ms = self._epoch_ms()
        if not epoch_ms or self._stored_epoch_ms == epoch_ms:
            return ()
        self._reconnections += 1
        now_ms = await self._now_ms()
        if now_ms > epoch_ms + CLOCK_MARGIN_MS:  # it admitted requests that came later than those that the rebuild reads
            return ()
        full_rules = await self._full_rules(self._rules(), epoch_ms, now_ms)
        ids = {rule.id for rule in full_rules if _can_rebuild(rule)}
        try:
            async with asyncio.timeout(_POSTGRES_TIMEOUT_S):
                return ids if ids and self._worker in await self._ledger.workers() else ()
        except DB_UNAVAILABLE_ERRORS:
            return ()

    async def _keep_checking(self) -> None:
        while True:
            self._changed.clear()
            try:
                pause_s = await self._check()
            except (RedisUnavailable, RedisReplyError) as fault:
                log.info("windows cannot be rebuilt: Redis is unavailable", extra={"fault": repr(fault)})
                self._set_loss(None)  # each worker enforces its own share, or refuses for another reason
                pause_s = _CHECK_EVERY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()

    async def _check(self) -> float | None:
        """Returns after how many seconds to check again, or None if there is nothing to do before something changes.

        Raises RedisUnavailable or RedisReplyError.
        """
        epoch_ms, limited = self._epoch_ms(), self._rules()
        if not epoch_ms:
            self._set_loss(None)
            return None
        if not self._counters.is_ready:  # also while a new connection is told what it missed, which must come before the report
            self._set_loss(None)
            return _CHECK_EVERY_S
        now_ms = await self._now_ms()
        full_rules = await self._full_rules(limited, epoch_ms, now_ms)
        self._set_loss(describe_loss(full_rules, epoch_ms, now_ms, self._waiting_for))
        # Even if this worker has no such rules, as its configuration may not be the newest: others wait for its report.
        has_reported = now_ms > epoch_ms + MAX_WINDOW_MS or await self._report_stored(epoch_ms)
        if any(_can_rebuild(rule) for rule in full_rules):
            try:
                self._note(await self._rebuild(limited, full_rules, epoch_ms, now_ms))
            except DB_UNAVAILABLE_ERRORS as fault:
                self._postgres_failed_s = time.monotonic()
                self._note(f"PostgreSQL ({type(fault).__name__})")
            now_ms = await self._now_ms()
            full_rules = await self._full_rules(limited, epoch_ms, now_ms)
            self._set_loss(describe_loss(full_rules, epoch_ms, now_ms, self._waiting_for))
        if not has_reported or any(_can_rebuild(rule) for rule in full_rules):
            return _CHECK_EVERY_S
        return _CHECK_UNTIL_PASSED_EVERY_S if full_rules else None

    async def _report_stored(self, epoch_ms: int) -> bool:
        """Tells the others that what ended here before this epoch was seen is in Postgres; what had not was taken again in this epoch.

        See Recovery.observe_epoch, which sends that over the same connection, and so before this. Returns whether it was told.
        """
        if self._stored_epoch_ms == epoch_ms:
            return True
        reconnections = self._reconnections
        try:
            is_stored = await self._ledger.is_stored()
        except DB_UNAVAILABLE_ERRORS:
            self._postgres_failed_s = time.monotonic()
            is_stored = False
        # What was admitted here in between, without Redis, was perhaps left to the records, and is not known to be stored.
        is_stored = is_stored and reconnections == self._reconnections
        if is_stored:
            await self._add_fields(STORED_PREFIX, epoch_ms, [self._worker.encode()])
            self._stored_epoch_ms = epoch_ms
        return is_stored

    async def _full_rules(self, limited: LimitedRules, epoch_ms: int, now_ms: int) -> list[Rule]:
        full_rules = find_full_rules(limited.table.rules, epoch_ms, now_ms, ())
        if not any(_can_rebuild(rule) for rule in full_rules):
            return full_rules
        rebuilt = {each.decode() for each in await self._fields(REBUILT_PREFIX, epoch_ms)}
        return find_full_rules(full_rules, epoch_ms, now_ms, rebuilt)

    async def _rebuild(self, limited: LimitedRules, full_rules: Sequence[Rule], epoch_ms: int, now_ms: int) -> str:
        """Rebuilds the windows if it is time; gives what there is to wait for.

        Raises RedisUnavailable, RedisReplyError, or one of db_errors.DB_UNAVAILABLE_ERRORS.
        """
        if now_ms <= epoch_ms + self._lease_ms:
            return _IN_FLIGHT
        stored = {each.decode() for each in await self._fields(STORED_PREFIX, epoch_ms)}
        alive = set(await self._ledger.workers())
        missing = sorted((alive | {self._worker}) - stored)
        if missing:
            if missing != self._missing:
                log.info("workers have yet to report that their records are stored", extra={"workers": missing[:_MAX_NAMES]})
            self._missing = missing
            return f"the records of {len(missing)} gateway process{'es' if len(missing) > 1 else ''} to be stored"
        if self._worker not in alive or time.monotonic() - self._postgres_failed_s < _REAPPEAR_S:
            return "gateway processes that have yet to report since PostgreSQL was unavailable"
        async with self._ledger.open_usage_by_slot() as usage:
            if usage is not None:
                rebuilt = {each.decode() for each in await self._fields(REBUILT_PREFIX, epoch_ms)}
                rules = [rule for rule in full_rules if _can_rebuild(rule) and rule.id not in rebuilt]
                for (dimensions, window_ms), alike in _group(rules).items():
                    await self._fill(usage.read(dimensions, window_ms, epoch_ms, limited.snapshot), dimensions, alike, limited, epoch_ms)
                if rules:
                    log.warning("windows of limits were rebuilt from the records", extra={"rules": len(rules), "born_ms": epoch_ms})
        return "the records to be read"

    async def _fill(
        self,
        used: AsyncIterator[tuple[Subject, list[SlotUsage]]],
        dimensions: Sequence[str],
        rules: Mapping[str, Rule],
        limited: LimitedRules,
        epoch_ms: int,
    ) -> None:
        commands: list[bytes] = []
        async for subject, slots in used:
            values = dict(zip(dimensions, subject, strict=True))
            for rule in limited.table.candidates(values):
                rule_subject = rule.subject(values) if rule.id in rules else None
                if rule_subject is not None and (amounts := slot_amounts(rule, slots)):
                    commands.append(encode_rebuild(self._counters.scripts, rule.key(rule_subject), epoch_ms, rule.window_ms, amounts))
            if len(commands) >= _BATCH_SIZE:
                await self._send(commands)
                commands = []
        await self._send(commands)
        # Only now: until a rule is marked, its windows count as full.
        await self._add_fields(REBUILT_PREFIX, epoch_ms, [id.encode() for id in rules])

    async def _send(self, commands: Iterable[bytes]) -> None:
        await asyncio.gather(*map(self._counters.call, commands))

    async def _fields(self, prefix: bytes, epoch_ms: int) -> list[bytes]:
        fields: list[bytes] = await self._counters.call(command((b"HKEYS", self._counters.key(b"%b%d" % (prefix, epoch_ms)))))
        return fields

    async def _add_fields(self, prefix: bytes, epoch_ms: int, fields: Sequence[bytes]) -> None:
        key = self._counters.key(b"%b%d" % (prefix, epoch_ms))
        for start in range(0, len(fields), _BATCH_SIZE):
            pairs = [part for field in fields[start : start + _BATCH_SIZE] for part in (field, b"1")]
            await self._counters.call(command((b"HSET", key, *pairs)))
        await self._counters.call(command((b"PEXPIRE", key, b"%d" % _KEEP_MS)))

    async def _now_ms(self) -> int:
        time: Sequence[Any] = await self._counters.call(command((b"TIME",)))
        return int(time[0]) * 1000 + int(time[1]) // 1000

    def _note(self, waiting_for: str) -> None:
        if waiting_for != self._waiting_for:
            log.info("windows count as full until they are rebuilt", extra={"waiting_for": waiting_for})
        self._waiting_for = waiting_for

    def _set_loss(self, loss: LossState | None) -> None:
        self.loss = loss
        self._telemetry.set_limits_refusing(0 if loss is None else loss.rules)


def _can_rebuild(rule: Rule) -> bool:
    return rule.kind == WINDOW and not rule.stays_full


def _group(rules: Iterable[Rule]) -> dict[tuple[tuple[str, ...], int], dict[str, Rule]]:
    """Rules, by id, that one query serves: by the dimensions of their scope and their window."""
    groups: dict[tuple[tuple[str, ...], int], dict[str, Rule]] = {}
    for rule in rules:
        groups.setdefault((rule.dimension_names, rule.window_ms), {})[rule.id] = rule
    return groups
