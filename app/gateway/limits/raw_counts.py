"""The raw values of buckets in Redis, for those who show them."""

from collections.abc import Sequence

from app.gateway.limits.counters.counters import RedisCounters
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command

_KEYS_AT_ONCE = 500


async def read_raw_counts(counters: RedisCounters, keys: Sequence[bytes]) -> Sequence[bytes | None] | None:
    """The values, in the order of the keys. None: Redis is unavailable."""
    values: list[bytes | None] = []
    try:
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            values += await counters.call(command((b"MGET", *map(counters.key, keys[start : start + _KEYS_AT_ONCE]))))
    except (RedisUnavailable, RedisReplyError):
        return None
    return values
