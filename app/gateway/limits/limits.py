"""Limits: reserve an estimate before a request, settle its actual usage after. All rules that apply are taken from, or none."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.callers import Caller
from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.gateway.limits import refusal
from app.gateway.limits import rule_states as states
from app.gateway.limits.counters.commands import Amounts, BucketSet
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.local_limiter import LocalLimiter
from app.gateway.limits.loss import LossState
from app.gateway.limits.match_notes import MatchNotes
from app.gateway.limits.outbox import Outbox
from app.gateway.limits.prepared_rules import PreparedRules, prepare_rules
from app.gateway.limits.raw_counts import read_raw_counts
from app.gateway.limits.rebuilding import LimitedRules, RecentLedger, WindowRebuilder
from app.gateway.limits.recovery import Recovery
from app.gateway.limits.redis_clock import RedisClock
from app.gateway.limits.redis_epoch import RedisEpoch
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import Bucket, RuleMatch, RuleMatcher
from app.gateway.limits.rule_states import Preview, RuleState
from app.gateway.limits.rule_use import RuleUse
from app.gateway.limits.rules import RuleTable
from app.gateway.limits.seeding import Ledger, LedgerSeeder
from app.gateway.limits.taking import Taker
from app.gateway.limits.unready_replies import UnreadyReplies
from app.gateway.limits.usage_amounts import NO_AMOUNTS, ONE_PLACE, ActualUsage, UsageEstimate
from app.process.background_tasks import BackgroundTask
from app.process.telemetry import Telemetry
from app.settings import Settings
from app.store.configuration.snapshots import EMPTY
from providers.canonical.errors import LimitExceeded, Unavailable


class LimitsLedger(Ledger, RecentLedger, Protocol):
    """Recorded usage, by which rules are counted again."""


class Limits:
    """One for each worker. reserve() for each request, then settle() or cancel() its reservation; prepare() and swap() when rules change.

    `workers_alive` gives the number of workers, on all machines together, that share a rule while Redis is away; `worker` is this one's id.
    `matcher` has the rules in force. A request keeps to those that were when it was planned. `open_reservations` counts those that are not
    settled, and places at targets with few.
    """

    def __init__(
        self,
        settings: Settings,
        counters: RedisCounters,
        database: AsyncEngine,
        ledger: LimitsLedger,
        telemetry: Telemetry,
        workers_alive: Callable[[], int],
        worker: str,
    ) -> None:
        self._lease_ms = int(settings.limits_lease_s * 1000)
        self._counters = counters
        self._telemetry = telemetry
        self._redis_epoch = RedisEpoch(counters, database)
        self._clock = RedisClock()
        self._outbox = Outbox(counters)
        self._local_limiter = LocalLimiter(self._clock.now_ms, lambda key: self._recovery.holders(key))
        self.matcher = self._make_matcher(RuleTable(()))
        self._snapshot = EMPTY
        self._recovery = Recovery(
            counters,
            self._redis_epoch,
            self._local_limiter,
            self._outbox,
            telemetry,
            self._lease_ms,
            lambda buckets: self.matcher.match_buckets(buckets),
            lambda: bool(self.matcher.table.rules),
        )
        self._rebuilder = WindowRebuilder(
            counters, ledger, telemetry, self._lease_ms, worker, lambda: self._recovery.epoch_ms, self._limited_rules
        )
        self.open_reservations = 0
        self._notes = MatchNotes()
        self._rule_use = RuleUse(database, self._notes.take_matched_names)
        seeder = LedgerSeeder(counters, ledger, lambda: self._snapshot)
        unready_replies = UnreadyReplies(self._redis_epoch, seeder, self._clock, lambda match: self.matcher.renew_periods(match))
        self._taker = Taker(counters, unready_replies, self._local_limiter, self._recovery, telemetry, workers_alive, self._undo)
        self._recovery.on_epoch = self._rebuilder.check_soon
        self._recovery.rules_counted_by_records = self._rebuilder.find_rules_counted_by_records

    @property
    def is_redis_up(self) -> bool:
        return self._counters.is_ready

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        return (
            *(self._counters.background_task, self._recovery.renewal, self._rebuilder.background_task),
            self._rule_use.background_task,
        )

    @property
    def loss(self) -> LossState | None:
        """The rules that refuse everything since Redis lost its memory; None: there are none."""
        return self._rebuilder.loss

    @property
    def pending_count(self) -> int:
        """The number of commands that Redis has yet to confirm."""
        return len(self._outbox) + len(self._recovery)

    def prepare(self, snapshot: Snapshot) -> PreparedRules:
        """The rules of a snapshot, for swap(). In steps, in any thread. What limits did not change keeps its cache."""
        return prepare_rules(snapshot, self.matcher, self._make_matcher)

    def swap(self, prepared: PreparedRules) -> None:
        """Puts prepared rules in force. Reservations keep the rules they were made by."""
        self.matcher, self._snapshot = prepared.matcher, prepared.snapshot
        self._rebuilder.check_soon()

    def _make_matcher(self, table: RuleTable) -> RuleMatcher:
        return RuleMatcher(table, self._lease_ms, self._clock.now_ms, self._counters.scripts.key_tag)

    def _limited_rules(self) -> LimitedRules:
        return LimitedRules(self.matcher.table, self._snapshot)

    async def start(self) -> None:
        """Connects to Redis. Returns after a moment also while Redis is away."""
        await self._counters.start()
        self._recovery.start()
        self._rebuilder.background_task.start()
        self._rule_use.background_task.start()

    async def stop(self, timeout_s: float = 2.0) -> None:
        """Waits up to `timeout_s` for Redis to confirm the last settlements, then disconnects."""
        for _ in range(int(timeout_s * 100)):
            if not self._outbox or not self._counters.is_ready:
                break
            await asyncio.sleep(0.01)
        await self._rule_use.background_task.stop()
        await self._rebuilder.background_task.stop()
        await self._recovery.stop()
        self._redis_epoch.stop()
        await self._counters.stop()

    async def reserve(
        self,
        id: str,
        caller: Caller,
        model: str,
        tags: Mapping[str, str],
        estimate: UsageEstimate,
        matcher: RuleMatcher | None = None,
        function: str | None = None,
    ) -> Reservation | None:
        """Reserves the estimate; None: no rule applies, so there is nothing to settle. A cancelled call holds nothing.

        `matcher` has the rules by which the request was planned; None means those in force. `function` is the one that the caller named
        instead of a model. Raises LimitExceeded (LimitUnsatisfiable where waiting does not help), Unavailable.
        """
        match = (self.matcher if matcher is None else matcher).match_for(caller, model, tags, function)
        if match is None:
            return None
        if not match.noted:
            self._notes.note_match(match)
        if estimate.cost_microusd is None and match.cost_rule is not None:
            raise refusal.no_price(match.cost_rule, model)
        reservation = Reservation(id.encode(), match, estimate.amounts())
        reservation.reply = await self._taker.take(reservation, match, reservation.need, 0)
        self._recovery.track(reservation)
        self.open_reservations += 1
        self._notes.note_grant(match)
        return reservation

    def report(self) -> None:
        """Gives the telemetry what was granted since the last call, by rule, and what is held."""
        self._notes.report_grants(self._telemetry)
        self._telemetry.set_reservations(self.open_reservations, redis_losses=self._redis_epoch.losses)

    def match_places(self, name: str, amount: int) -> RuleMatch:
        """Returns a match for take_place(): of at most `amount` places under a name, over all processes.

        It is of a rule that no request matches.
        """
        (rule,) = RuleTable([Limit(name, {}, "concurrency", amount, after_loss="empty")]).rules
        return self.matcher.match_buckets([Bucket(rule, rule.key(()), {})])

    async def take_place(self, id: str, match: RuleMatch) -> Reservation:
        """Takes a place of match_places(), which is held until cancel().

        `id` is of this place alone. Raises LimitExceeded if all are taken, and Unavailable.
        """
        reservation = Reservation(id.encode(), match, ONE_PLACE)
        reservation.reply = await self._taker.take(reservation, match, ONE_PLACE, 0, counts_refusals=False)
        self._recovery.track(reservation)
        self.open_reservations += 1
        return reservation

    async def extend_reservation(
        self,
        reservation: Reservation | None,
        id: str,
        caller: Caller,
        model: str,
        tags: Mapping[str, str],
        estimate: UsageEstimate,
        matcher: RuleMatcher | None = None,
        function: str | None = None,
    ) -> Reservation | None:
        """Reserves what the rules of a fallback's model need beyond the reservation. Where it raises, the reservation is unchanged.

        `matcher` means what it does for reserve().
        """
        if reservation is None:
            return await self.reserve(id, caller, model, tags, estimate, matcher, function)
        match = (self.matcher if matcher is None else matcher).match_for(caller, model, tags, function)
        if match is None:
            return reservation
        if not match.noted:
            self._notes.note_match(match)
        if estimate.cost_microusd is None and match.cost_rule is not None:
            raise refusal.no_price(match.cost_rule, model)
        held_buckets = reservation.buckets
        keys = {bucket.key for bucket in held_buckets}
        new_buckets = [bucket for bucket in match.buckets if bucket.key not in keys]
        if new_buckets:
            match = self.matcher.match_buckets(new_buckets)
            reservation.extensions.append((match, []))  # before the call: however it ends, these buckets are settled with the others
            try:
                reply = await self._taker.take(reservation, match, estimate.amounts(), len(held_buckets))
            except (LimitExceeded, Unavailable):
                if not reservation.maybe_taken:
                    reservation.extensions.pop()
                raise
            reservation.extensions[-1] = (match, reply)
            self._notes.note_grant(match)
        return reservation

    def settle(self, reservation: Reservation, spent: ActualUsage) -> None:
        """Replaces the estimate with the actual usage and frees the places. A second call does nothing.

        Sent to Redis with this turn's writes, and again with each new connection until it is confirmed.
        """
        self._finish(reservation, spent.amounts())

    def cancel(self, reservation: Reservation) -> None:
        """Releases the whole reservation: no engine received the request."""
        self._finish(reservation, NO_AMOUNTS)

    async def rule_states(self, caller: Caller, model: str | None, tags: Mapping[str, str], function: str | None = None) -> list[RuleState]:
        """The rules that apply to a caller, and how much of each is left. Raises Unavailable."""
        match = self.matcher.match_for(caller, model, tags, function)
        if match is None:
            return []
        return states.read_rule_states(match, await self._taker.peek(match, NO_AMOUNTS), NO_AMOUNTS)

    async def preview(
        self, caller: Caller, model: str, tags: Mapping[str, str], estimate: UsageEstimate, function: str | None = None
    ) -> Preview:
        """Returns what would happen to a request now, and reserves nothing.

        Raises LimitUnsatisfiable if a rule limits cost and the model has no price, and Unavailable.
        """
        match = self.matcher.match_for(caller, model, tags, function)
        if match is None:
            return Preview((), None, None)
        if estimate.cost_microusd is None and match.cost_rule is not None:
            raise refusal.no_price(match.cost_rule, model)
        amounts = estimate.amounts()
        return states.read_preview(match, await self._taker.peek(match, amounts), amounts)

    async def read_counts(self, keys: Sequence[bytes]) -> Sequence[bytes | None] | None:
        """The raw values of buckets in Redis, to be shown. None: Redis is unavailable."""
        return await read_raw_counts(self._counters, keys)

    def _finish(self, reservation: Reservation, spent: Amounts) -> None:
        if reservation.settled:
            return
        reservation.settled = True
        self.open_reservations -= 1
        self._recovery.untrack(reservation)
        if reservation.local_amounts is not None:
            self._local_limiter.settle(reservation, spent)
            if reservation.epoch_ms is None:
                if reservation.maybe_taken:  # it was counted locally, so what Redis may have counted is undone
                    self._undo(reservation)
                return
        elif not self._counters.is_ready:
            self._local_limiter.release_leases(reservation)
        self._outbox.post(self._row(reservation).settle(reservation.id, spent))

    def _undo(self, reservation: Reservation) -> None:
        self._outbox.post(self._row(reservation).settle(reservation.id, NO_AMOUNTS))

    def _row(self, reservation: Reservation) -> BucketSet:
        return self.matcher.match_buckets(reservation.buckets).row if reservation.extensions else reservation.match.row
