"""UnreadyReplies: what take.lua needs before it can decide: an epoch, a seed from the ledger, the periods of Redis's clock."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from app.gateway.limits import refusal
from app.gateway.limits.counters.commands import ALLOW_UNSEEDED
from app.gateway.limits.counters.scripts import FORGOTTEN, UNSEEDED, WRONG_TIME
from app.gateway.limits.redis_clock import RedisClock
from app.gateway.limits.redis_epoch import RedisEpoch
from app.gateway.limits.rule_matcher import RuleMatch
from app.gateway.limits.seeding import LedgerSeeder
from app.store.redis.replies import RedisReplyError, RedisUnavailable

log = logging.getLogger(__name__)


class UnreadyReplies:
    """Answers replies that decide nothing yet. `renew_periods` is that of the rules in force."""

    def __init__(
        self, redis_epoch: RedisEpoch, seeder: LedgerSeeder, clock: RedisClock, renew_periods: Callable[[RuleMatch], None]
    ) -> None:
        self._redis_epoch = redis_epoch
        self._seeder = seeder
        self._clock = clock
        self._renew_periods = renew_periods

    async def resolve(self, match: RuleMatch, reply: list[Any], mode: int) -> int:
        """Does what the reply demands; gives the mode of the next call.

        Raises Unavailable, RedisUnavailable, RedisReplyError.
        """
        if reply[0] == FORGOTTEN:
            await self._redis_epoch.create()
        elif reply[0] == WRONG_TIME:
            self._clock.set(reply[1])
            self._renew_periods(match)
        elif reply[0] == UNSEEDED:
            return await self._seed(match, reply, mode)
        else:
            raise RedisReplyError(f"unexpected reply {reply[0]}")
        return mode

    async def _seed(self, match: RuleMatch, reply: list[Any], mode: int) -> int:
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
        return mode
