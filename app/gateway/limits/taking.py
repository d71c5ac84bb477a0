"""Taker: takes amounts from all buckets of a match or from none, in one call of Redis; from this worker's share while Redis is away."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from app.gateway.limits import refusal
from app.gateway.limits.counters.broken_bucket import BrokenBucket
from app.gateway.limits.counters.commands import PREVIEW, TAKE, Amounts
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.counters.scripts import REFUSED, TAKEN
from app.gateway.limits.local_limiter import LocalLimiter
from app.gateway.limits.rate_limit_headers import LOCAL_HEADER
from app.gateway.limits.recovery import Recovery
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatch
from app.gateway.limits.unready_replies import UnreadyReplies
from app.process.telemetry import Telemetry
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from providers.canonical.errors import LimitExceeded, Unavailable

log = logging.getLogger(__name__)

# How many replies to one take() may demand something first: an epoch, a seed, the periods of Redis's clock.
_MAX_TRIES = 6


class Taker:
    """Takes from buckets: in Redis, or of this worker's share while Redis is away.

    `workers_alive` gives the number of workers that share a rule meanwhile. `undo` gives back what Redis may have taken.
    """

    def __init__(
        self,
        counters: RedisCounters,
        unready_replies: UnreadyReplies,
        local_limiter: LocalLimiter,
        recovery: Recovery,
        telemetry: Telemetry,
        workers_alive: Callable[[], int],
        undo: Callable[[Reservation], None],
    ) -> None:
        self._counters = counters
        self._unready_replies = unready_replies
        self._local_limiter = local_limiter
        self._recovery = recovery
        self._telemetry = telemetry
        self._workers_alive = workers_alive
        self._undo = undo

    async def take(
        self, reservation: Reservation, match: RuleMatch, need: Amounts, bucket_offset: int, *, counts_refusals: bool = True
    ) -> list[Any]:
        """The reply, of Redis or of this worker. Raises LimitExceeded and Unavailable.

        A call that is cancelled, or that raises, holds nothing, unless it extends a reservation (`bucket_offset`), which its owner settles.
        """
        counters = self._counters
        mode = TAKE
        for _ in range(_MAX_TRIES):
            if not counters.is_ready:
                break
            try:
                reply: list[Any] = await counters.send_command(match.row.take(reservation.id, need, mode, bucket_offset))
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
                mode = await self._unready_replies.resolve(match, reply, mode)
            except RedisUnavailable as fault:
                reservation.maybe_taken = reservation.maybe_taken or not fault.unsent
                break
            except BrokenBucket as error:
                log.error(
                    "a bucket of the limits is unreadable: until it expires, workers enforce their shares", extra={"reply": str(error)}
                )
                return self._take_locally(reservation, match, need, bucket_offset)
            except RedisReplyError as error:
                if str(error).startswith("NOSCRIPT"):
                    with contextlib.suppress(RedisUnavailable, RedisReplyError):
                        await counters.load_scripts()
                    continue
                log.error("Redis refused a command of the limits", extra={"reply": str(error)})
                break
            except asyncio.CancelledError:
                if bucket_offset == 0:
                    self._undo(reservation)
                raise
        if counters.is_ready:  # Redis replies, but does not execute: a new connection will report what is taken locally now
            counters.reconnect()
        return self._take_locally(reservation, match, need, bucket_offset)

    async def peek(self, match: RuleMatch, need: Amounts) -> list[Any]:
        """The reply that take() would get now, with nothing taken. Raises Unavailable."""
        mode = PREVIEW
        with contextlib.suppress(RedisUnavailable, RedisReplyError):
            for _ in range(_MAX_TRIES):
                if not self._counters.is_ready:
                    break
                reply: list[Any] = await self._counters.call(match.row.take(b"", need, mode))
                if reply[0] == REFUSED:
                    return reply
                mode = await self._unready_replies.resolve(match, reply, mode)
        raise refusal.limits_unavailable()

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

    def _count_dry_run_refusals(self, match: RuleMatch, reply: list[Any]) -> None:
        for index in match.dry_run_rules:
            if reply[3 + 2 * index] < 0:
                self._telemetry.count_dry_run_refusal(match.rule(index).name)
