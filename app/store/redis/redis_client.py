"""Redis clients for stored responses and claims, with a bound on every wait."""

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

_MAX_CONNECTIONS = 32


def create_redis(redis_url: str, timeout_s: float) -> Redis:
    # One immediate retry: after a restart of Redis every pooled connection fails at its first use.
    retry = Retry(NoBackoff(), 1)
    pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
        redis_url,
        max_connections=_MAX_CONNECTIONS,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=retry,
    )
    return Redis.from_pool(pool)
