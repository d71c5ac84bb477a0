"""Connections to Redis for what the road stores in it, and no longer patience than is told."""

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

_CONNECTIONS = 32


def pooled(redis_url: str, patience_s: float) -> Redis:
    # Once more, and at once: after a restart of Redis every pooled connection fails at its first use.
    again = Retry(NoBackoff(), 1)
    pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
        redis_url,
        max_connections=_CONNECTIONS,
        timeout=patience_s,
        socket_timeout=patience_s,
        socket_connect_timeout=patience_s,
        retry=again,
    )
    return Redis.from_pool(pool)
