"""Limits: reserve an estimate before a request, settle its actual usage after. One Redis call takes from all rules that apply, or none."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.callers import Caller
from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.gateway.limits import refusal
from app.gateway.limits import rule_states as states
from app.gateway.limits.counters.commands import ALLOW_UNSEEDED, PREVIEW, TAKE, Amounts, BucketSet
from app.gateway.limits.counters.connection import RedisReplyError, RedisUnavailable
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.counters.resp import command
from app.gateway.limits.counters.scripts import FORGOTTEN, REFUSED, TAKEN, UNSEEDED, WRONG_TIME
from app.gateway.limits.local_limiter import LocalLimiter
from app.gateway.limits.loss import LossState
from app.gateway.limits.outbox import Outbox
from app.gateway.limits.rate_limit_headers import LOCAL_HEADER
from app.gateway.limits.rebuilding import LimitedRules, RecentLedger, WindowRebuilder
from app.gateway.limits.recovery import Recovery
from app.gateway.limits.redis_epoch import RedisEpoch
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import Bucket, RuleMatch, RuleMatcher
from app.gateway.limits.rule_states import Preview, RuleState
from app.gateway.limits.rule_use import RuleUse
from app.gateway.limits.rules import RuleTable
from app.gateway.limits.seeding import Ledger, LedgerSeeder
from app.gateway.limits.usage_amounts import NO_AMOUNTS, ONE_PLACE, ActualUsage, UsageEstimate
from app.process.background_tasks import BackgroundTask
from app.process.telemetry import Telemetry
from app.settings import Settings
from app.store.configuration.snapshots import EMPTY
from app.store.configuration.validation.shadows import shadow_limits
from app.store.keys.team_restrictions import team_limits
from providers.canonical.errors import LimitExceeded, Unavailable

log = logging.getLogger(__name__)

# How many replies of one reserve() may demand something first: an epoch, a seed, the periods of Redis's clock.
_MAX_TRIES = 6
_KEYS_AT_ONCE = 500


class LimitsLedger(Ledger, RecentLedger, Protocol):
    """Recorded usage, by which rules are counted again."""


class PreparedRules(Struct, frozen=True):
    """The rules that Limits.prepare() makes of a snapshot.

    The snapshot's fallbacks and functions decide whose records count for a rule of a model.
    """

    matcher: RuleMatcher
    snapshot: Snapshot


class Limits:
    """One for each worker. reserve() for each request, then settle() or cancel() its reservation; prepare() and swap() when rules change.

    `workers_alive`: the number of workers, on all machines together, that share a rule while Redis is away. `worker`: this one's id.
    `matcher`: the rules in force. A request keeps to those that were when it was planned. `open_reservations`: those that are not
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
        self._workers_alive = workers_alive
        self._redis_epoch = RedisEpoch(counters, database)
        self._seeder = LedgerSeeder(counters, ledger, lambda: self._snapshot)
        self._skew_ms = 0.0
        self._outbox = Outbox(counters)
        self._local_limiter = LocalLimiter(self._now_ms, lambda key: self._recovery.holders(key))
        self.matcher = RuleMatcher(RuleTable(()), counters.scripts, self._lease_ms, self._now_ms)
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
        self._granted_matches: list[RuleMatch] = []
        self._noted_matches: list[RuleMatch] = []
        self._rule_use = RuleUse(database, self._take_matched_names)
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
        limits = [*snapshot.limits, *team_limits(snapshot)] if snapshot.team_limits else snapshot.limits
        if snapshot.shadow_teams:
            limits = [*limits, *shadow_limits(snapshot)]
        table = RuleTable(limits, snapshot.limits_since, self.matcher.table, snapshot.overrides, snapshot.counted_as)
        if table.rules == self.matcher.table.rules:
            return PreparedRules(self.matcher, snapshot)
        return PreparedRules(RuleMatcher(table, self._counters.scripts, self._lease_ms, self._now_ms), snapshot)

    def swap(self, prepared: PreparedRules) -> None:
        """Puts prepared rules in force. Reservations keep the rules they were made by."""
        self.matcher, self._snapshot = prepared.matcher, prepared.snapshot
        self._rebuilder.check_soon()

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

        `matcher`: the rules by which the request was planned; None: those in force. `function`: that the caller named instead of a model.
        Raises LimitExceeded (LimitUnsatisfiable where waiting does not help), Unavailable.
        """
        match = (self.matcher if matcher is None else matcher).match_for(caller, model, tags, function)
        if match is None:
            return None
        if not match.noted:
            self._note_match(match)
        if estimate.cost_microusd is None and match.cost_rule is not None:
            raise refusal.no_price(match.cost_rule, model)
        reservation = Reservation(id.encode(), match, estimate.amounts())
        reservation.reply = await self._take(reservation, match, reservation.need, 0)
        self._recovery.track(reservation)
        self.open_reservations += 1
        self._note_grant(match)
        return reservation

    def _note_match(self, match: RuleMatch) -> None:
        match.noted = True
        self._noted_matches.append(match)

    def _take_matched_names(self) -> set[str]:
        """Returns the names of the rules that requests have matched since the last call."""
        matches, self._noted_matches = self._noted_matches, []
        names: set[str] = set()
        for match in matches:
            match.noted = False
            names.update(bucket.rule.name for bucket in match.buckets)
        return names

    def _note_grant(self, match: RuleMatch) -> None:
        if not match.granted:
            self._granted_matches.append(match)
        match.granted += 1

    def report(self) -> None:
        """Gives the telemetry what was granted since the last call, by rule, and what is held."""
        matches, self._granted_matches = self._granted_matches, []
        for match in matches:
            for bucket in match.buckets:
                self._telemetry.count_limit_grants(bucket.rule.name, match.granted)
            match.granted = 0
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
        reservation.reply = await self._take(reservation, match, ONE_PLACE, 0, counts_refusals=False)
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

        `matcher`: see reserve().
        """
        if reservation is None:
            return await self.reserve(id, caller, model, tags, estimate, matcher, function)
        match = (self.matcher if matcher is None else matcher).match_for(caller, model, tags, function)
        if match is None:
            return reservation
        if not match.noted:
            self._note_match(match)
        if estimate.cost_microusd is None and match.cost_rule is not None:
            raise refusal.no_price(match.cost_rule, model)
        held_buckets = reservation.buckets
        keys = {bucket.key for bucket in held_buckets}
        new_buckets = [bucket for bucket in match.buckets if bucket.key not in keys]
        if new_buckets:
            match = self.matcher.match_buckets(new_buckets)
            reservation.extensions.append((match, []))  # before the call: however it ends, these buckets are settled with the others
            try:
                reply = await self._take(reservation, match, estimate.amounts(), len(held_buckets))
            except (LimitExceeded, Unavailable):
                if not reservation.maybe_taken:
                    reservation.extensions.pop()
                raise
            reservation.extensions[-1] = (match, reply)
            self._note_grant(match)
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
        return states.read_rule_states(match, await self._peek(match, NO_AMOUNTS), NO_AMOUNTS)

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
        return states.read_preview(match, await self._peek(match, amounts), amounts)

    async def read_counts(self, keys: Sequence[bytes]) -> Sequence[bytes | None] | None:
        """The raw values of buckets in Redis, to be shown. None: Redis is unavailable."""
        values: list[bytes | None] = []
        try:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                values += await self._counters.call(command((b"MGET", *keys[start : start + _KEYS_AT_ONCE])))
        except (RedisUnavailable, RedisReplyError):
            return None
        return values

    # --- reserving

    async def _take(
        self, reservation: Reservation, match: RuleMatch, need: Amounts, bucket_offset: int, *, counts_refusals: bool = True
    ) -> list[Any]:
        counters = self._counters
        mode = TAKE
        for _ in range(_MAX_TRIES):
            if not counters.is_ready:
                break
            try:
                reply: list[Any] = await counters.call(match.row.take(reservation.id, need, mode, bucket_offset))
                if len(reply) > 2 and reply[2] != self._recovery.epoch_ms:
                    self._recovery.observe_epoch(reply[2])
                if reply[0] == TAKEN:
                    match.last_reply = reply
                    reservation.epoch_ms = reply[2]
                    if match.dry_run_rules:
                        self._count_dry_run_refusals(match, reply)
                    return reply
                if reply[0] == REFUSED:
                    if counts_refusals:
                        self._telemetry.count_limit_refusal(match.rule(reply[3]).name)
                    raise refusal.limit_exceeded(match, reply, need)
                mode = await self._resolve_reply(match, reply, mode)
            except RedisUnavailable as fault:
                reservation.maybe_taken = reservation.maybe_taken or not fault.unsent
                break
            except RedisReplyError as error:
                log.error("Redis refused a command of the limits", extra={"reply": str(error)})
                break
            except asyncio.CancelledError:
                if bucket_offset == 0:
                    self._undo(reservation)
                raise
        if counters.is_ready:  # Redis replies, but does not execute: a new connection will report what is taken locally now
            counters.reconnect()
        return self._take_locally(reservation, match, need, bucket_offset)

    def _take_locally(self, reservation: Reservation, match: RuleMatch, need: Amounts, bucket_offset: int) -> list[Any]:
        """Takes from this worker's share without Redis. Raises Unavailable if a rule has on_outage = "refuse"."""
        try:
            if match.outage_refusing_rule is not None:
                raise refusal.rule_unavailable(match.outage_refusing_rule)
            reply = self._local_limiter.take(reservation, match, need, self._workers_alive())
            if reply[0] == REFUSED:
                self._telemetry.count_limit_refusal(match.rule(reply[3]).name)
                refused = refusal.limit_exceeded(match, reply, need)
                refused.headers = [*refused.headers, LOCAL_HEADER]
                refused.message += " Redis is unavailable: until it is back, each worker enforces its share of the limit."
                raise refused
        except (LimitExceeded, Unavailable):
            if reservation.maybe_taken and bucket_offset == 0:
                self._undo(reservation)
            raise
        self._telemetry.count_local_admission()
        return reply

    async def _resolve_reply(self, match: RuleMatch, reply: list[Any], mode: int) -> int:
        """Does what take.lua needs before it can decide; gives the mode of the next call.

        Raises Unavailable, RedisUnavailable, RedisReplyError.
        """
        if reply[0] == FORGOTTEN:
            await self._redis_epoch.create()
        elif reply[0] == WRONG_TIME:
            self._skew_ms = reply[1] - time.time() * 1000
            self.matcher.renew_periods(match)
        elif reply[0] == UNSEEDED:
            indexes: list[int] = reply[3:]
            buckets = [match.buckets[index] for index in indexes]
            try:
                await asyncio.gather(*(self._seeder.seed(bucket, reply[2], reply[1]) for bucket in buckets))
            except (RedisUnavailable, RedisReplyError):
                raise
            except Exception as fault:  # of Postgres, or of a library whose connection was lost
                log.warning("usage from before Redis lost its memory cannot be read from the ledger", extra={"fault": repr(fault)})
                for bucket in buckets:
                    if bucket.rule.limit.on_outage == "refuse" and not bucket.rule.limit.dry_run:
                        raise refusal.rule_unavailable(bucket.rule) from None
                return mode | ALLOW_UNSEEDED
        else:
            raise RedisReplyError(f"unexpected reply {reply[0]}")
        return mode

    async def _peek(self, match: RuleMatch, need: Amounts) -> list[Any]:
        mode = PREVIEW
        with contextlib.suppress(RedisUnavailable, RedisReplyError):
            for _ in range(_MAX_TRIES):
                if not self._counters.is_ready:
                    break
                reply: list[Any] = await self._counters.call(match.row.take(b"", need, mode))
                if reply[0] == REFUSED:
                    return reply
                mode = await self._resolve_reply(match, reply, mode)
        raise refusal.limits_unavailable()

    def _count_dry_run_refusals(self, match: RuleMatch, reply: list[Any]) -> None:
        for index in match.dry_run_rules:
            if reply[3 + 2 * index] < 0:
                self._telemetry.count_dry_run_refusal(match.rule(index).name)

    # --- settling

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

    def _now_ms(self) -> float:
        """The time by Redis's clock, as far as it is known."""
        return time.time() * 1000 + self._skew_ms
