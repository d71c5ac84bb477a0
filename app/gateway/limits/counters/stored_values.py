"""Raw values of buckets, for a command that runs once: a worker reads them by its own connection."""

from collections.abc import Sequence

from app.gateway.limits.counters.scripts import key_tag
from app.store.redis.redis_client import RedisClient, RedisErrors
from app.store.redis.resp import command

_TIMEOUT_S = 2.0


async def read_stored_values(redis_url: str, keys: Sequence[bytes]) -> Sequence[bytes | None] | None:
    """Returns the values of the keys, or None if Redis is unavailable or there is no URL."""
    if not redis_url:
        return None
    tag = key_tag(redis_url)
    tagged = [tag + key for key in keys]
    redis = RedisClient(redis_url, _TIMEOUT_S)
    try:
        return await redis.run(tagged[0], command((b"MGET", *tagged))) if tagged else ()
    except RedisErrors:
        return None
    finally:
        await redis.close()
