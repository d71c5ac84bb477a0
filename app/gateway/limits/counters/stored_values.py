"""Raw values of buckets, for a command that runs once: a worker reads them by its own connection."""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

from app.store.redis.redis_client import create_redis

_TIMEOUT_S = 2.0


async def read_stored_values(redis_url: str, keys: Sequence[bytes]) -> Sequence[bytes | None] | None:
    """Returns the values of the keys, or None if Redis is unavailable or there is no URL."""
    if not redis_url:
        return None
    redis = create_redis(redis_url, _TIMEOUT_S)
    try:
        values: Any = await redis.mget(keys)
        return values
    except (RedisError, OSError):
        return None
    finally:
        await redis.aclose()
