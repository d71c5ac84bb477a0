"""Recovery: requests in flight stay counted when a connection or Redis's memory is lost. Reports what Redis missed, renews leases."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, cast

from app.gateway.limits.counters import commands
from app.gateway.limits.counters.broken_bucket import BrokenBucket
from app.gateway.limits.counters.commands import FORCE, Amounts
from app.gateway.limits.counters.counters import MAX_RETRY_PAUSE_S, RedisCounters
from app.gateway.limits.counters.scripts import FORGOTTEN, TAKEN
from app.gateway.limits.local_limiter import Charge, LocalLimiter
from app.gateway.limits.outbox import Outbox
from app.gateway.limits.redis_epoch import RedisEpoch
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import Bucket, RuleMatch
from app.gateway.limits.rules import LEASES
from app.gateway.limits.usage_amounts import NO_AMOUNTS
from app.process.background_tasks import BackgroundTask
from app.process.telemetry import Telemetry
from app.store.redis.replies import RedisReplyError, RedisUnavailable

log = logging.getLogger(__name__)

_RENEW_BATCH_SIZE = 500


async def _find_none() -> Collection[str]:
    return ()


class Recovery:
    """track() each reservation, untrack() it when its request is over; observe_epoch() when a reply shows another epoch than `epoch_ms`.

    `match_buckets` builds the match of given buckets. `has_rules` says whether there are any: without rules and reservations, Redis gets no
    commands.
    """

    def __init__(
        self,
        counters: RedisCounters,
        redis_epoch: RedisEpoch,
        local_limiter: LocalLimiter,
        outbox: Outbox,
        telemetry: Telemetry,
        lease_ms: int,
        match_buckets: Callable[[Sequence[Bucket]], RuleMatch],
        has_rules: Callable[[], bool],
    ) -> None:
        self.epoch_ms: int | None = None
        self.on_epoch: Callable[[], None] = lambda: None  # after what is in flight was sent to be counted in it
        self.rules_counted_by_records: Callable[[], Awaitable[Collection[str]]] = _find_none
        self._counters = counters
        self._redis_epoch = redis_epoch
        self._local_limiter = local_limiter
        self._outbox = outbox
        self._telemetry = telemetry
        self._lease_ms = lease_ms
        self._match_buckets = match_buckets
        self._has_rules = has_rules
        self._active: dict[bytes, Reservation] = {}
        # Taken locally while Redis was away, and yet to be counted there.
        self._unreported: dict[bytes, Reservation] = {}
        self._down_since_s: float | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.renewal = BackgroundTask("leases", self._keep_renewing)
        counters.on_ready = self._catch_up
        counters.on_lost = self._on_down

    def __len__(self) -> int:
        """The number of reports to Redis that are outstanding."""
        return len(self._unreported) + len(self._tasks)

    def start(self) -> None:
        self._telemetry.set_redis_unavailable(not self._counters.is_ready)
        self.renewal.start()

    async def stop(self) -> None:
        await self.renewal.stop()
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def track(self, reservation: Reservation) -> None:
        self._active[reservation.id] = reservation

    def untrack(self, reservation: Reservation) -> None:
        self._active.pop(reservation.id, None)

    def holders(self, key: bytes) -> Collection[bytes]:
        """Reservations that hold a place of a bucket."""
        return [reservation.id for reservation in self._active.values() if any(key in match.lease_keys for match in reservation.matches)]

    def observe_epoch(self, epoch_ms: int) -> None:
        """Redis has another epoch than before (it lost its memory), or this is the first one seen."""
        previous_ms, self.epoch_ms = self.epoch_ms, epoch_ms
        self._redis_epoch.record()
        if previous_ms is not None:
            for reservation in self._active.values():
                if reservation.epoch_ms is not None and reservation.epoch_ms != epoch_ms:
                    self._unreported[reservation.id] = reservation
            with contextlib.suppress(RedisUnavailable):  # the next connection reports them
                reports = [self._report_reservation(reservation) for reservation in self._unreported.values()]
                self._spawn(self._await_reports(reports))
        self.on_epoch()

    # --- a new connection

    async def _catch_up(self) -> None:
        """Reports what Redis missed, before any new command is sent. Raises RedisUnavailable or RedisReplyError."""
        before_ms = self.epoch_ms
        if (await self._renew_leases())[0] == FORGOTTEN and (self._has_rules() or self._active or self._outbox):
            await self._redis_epoch.create()
            await self._renew_leases()
        if self._counters.has_moved and self.epoch_ms == before_ms:
            await self._report_to_other_server()
        if self._counters.has_moved or (
            self._down_since_s is not None and (time.monotonic() - self._down_since_s) * 1000 > self._lease_ms / 2
        ):
            # Leases of requests in flight may have expired. No place is taken until every worker has had time to renew its own.
            await asyncio.sleep(MAX_RETRY_PAUSE_S + 0.5)
            await self._renew_leases()
        by_records = await self.rules_counted_by_records() if self._local_limiter.is_used else ()
        # Nothing is awaited from here on, so what is sent now is executed before what requests send next.
        kept_charges: set[bytes] = set()
        for reservation in self._active.values():
            if reservation.local_amounts is not None:
                if reservation.epoch_ms is None:
                    self._local_limiter.settle(reservation, NO_AMOUNTS)
                    self._unreported[reservation.id] = reservation
                else:
                    kept_charges.update(bucket.key for bucket, _, _ in reservation.local_amounts)
                    reservation.local_amounts = None  # the part taken locally stays charged as it was estimated
        reports = [self._report_reservation(reservation) for reservation in self._unreported.values()]
        reports += [self._report_charge(charge) for charge in self._charges_to_report(by_records, kept_charges)]
        self._outbox.resend()
        if reports:
            self._spawn(self._await_reports(reports))
        self._down_since_s = None
        self._telemetry.set_redis_unavailable(False)

    async def _report_to_other_server(self) -> None:
        """Reports what is in flight and what was settled last after a failover: the new primary may lack the last moment of it.

        What it knows it counts once. In another epoch, the records are what counts. Raises RedisUnavailable or RedisReplyError.
        """
        await self._outbox.report_again()
        held = [each for each in self._active.values() if each.epoch_ms is not None]
        results = await asyncio.gather(*(self._report_reservation(each) for each in held), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, BrokenBucket):
                raise result

    def _charges_to_report(self, by_records: Collection[str], kept: Collection[bytes]) -> list[Charge]:
        """Returns the pending charges, without those that are counted by the records of the same requests.

        `by_records` holds ids of rules whose windows will count these records. `kept` holds keys of buckets
        with charges of requests that are running, which have no record yet: these are reported all the same.
        Charges that are left out count as confirmed.
        """
        charges: list[Charge] = []
        for charge in list(self._local_limiter.pending_charges()):
            if charge.bucket.rule.id in by_records and charge.bucket.key not in kept:
                self._local_limiter.confirm_charge(charge)
            else:
                charges.append(charge)
        return charges

    def _on_down(self) -> None:
        self._down_since_s = self._down_since_s or time.monotonic()
        self._telemetry.set_redis_unavailable(True)

    def _report_reservation(self, reservation: Reservation) -> asyncio.Task[bool]:
        pending_reply = self._counters.send_command(
            self._match_buckets(reservation.buckets).row.take(reservation.id, reservation.need, FORCE)
        )

        async def report() -> bool:
            try:
                reply = await pending_reply
            except BrokenBucket:
                self._unreported.pop(reservation.id, None)
                raise
            if reply[0] == TAKEN:
                reservation.epoch_ms = reply[2]
                self._unreported.pop(reservation.id, None)
            return reply[0] == TAKEN

        return asyncio.ensure_future(report())

    def _report_charge(self, charge: Charge) -> asyncio.Task[bool]:
        match = self._match_buckets([charge.bucket])
        need = [0] * 6
        need[charge.bucket.rule.resource - 1] = charge.amount
        pending_reply = self._counters.send_command(match.row.take(charge.id, cast(Amounts, tuple(need)), FORCE))

        async def report() -> bool:
            reply = await pending_reply
            if reply[0] == TAKEN:
                self._local_limiter.confirm_charge(charge)
            return reply[0] == TAKEN

        return asyncio.ensure_future(report())

    async def _await_reports(self, reports: list[asyncio.Task[bool]]) -> None:
        results = await asyncio.gather(*reports, return_exceptions=True)
        if not self._counters.is_ready:
            return
        if all(each is True or isinstance(each, BrokenBucket) for each in results):
            self._local_limiter.discard_reported()
        else:  # for instance a server that replies but cannot write
            self._counters.reconnect()

    # --- leases

    async def _renew_leases(self) -> list[Any]:
        """Renews all leases that Redis counts, and gives the last reply. Raises RedisUnavailable or RedisReplyError."""
        leases = self._leases()
        reply: list[Any] = []
        for start in range(0, max(1, len(leases)), _RENEW_BATCH_SIZE):
            batch = leases[start : start + _RENEW_BATCH_SIZE]
            reply = await self._counters.call(commands.encode_renew(self._counters.scripts, self._lease_ms, batch))
            if reply[0] == FORGOTTEN:
                return reply
        if reply[2] != self.epoch_ms:
            self.observe_epoch(reply[2])
        return reply

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            if not self._counters.is_ready or not (self._has_rules() or self._active):
                continue
            try:
                if (await self._renew_leases())[0] == FORGOTTEN:
                    await self._redis_epoch.create()
                    await self._renew_leases()
            except (RedisUnavailable, RedisReplyError):
                pass

    def _leases(self) -> list[tuple[bytes, bytes]]:
        """Bucket key and reservation id of each place that Redis counts."""
        return [
            (bucket.key, reservation.id)
            for reservation in self._active.values()
            if reservation.epoch_ms is not None and (reservation.match.lease_keys or reservation.extensions)
            for bucket in reservation.buckets
            if bucket.rule.kind == LEASES
        ]

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
