"""Redis for what is not the limits': stored responses, claims, their copies. Its connection is its own: neither waits for the other.

One pipelined connection for each server, instead of a pool of connections that a task holds while it waits: a command costs a tenth of
what it costs through redis-py.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from app.store.redis.cluster_connections import ClusterConnections, KeyCommand
from app.store.redis.discovery import ClusterSlots, make_discovery
from app.store.redis.redis_url import parse_redis_url
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from app.store.redis.scripts import Script
from app.store.redis.server_connection import ServerConnection

RedisErrors = (RedisUnavailable, RedisReplyError)


class RedisClient:
    """Commands about one key each. Every method raises RedisUnavailable or RedisReplyError; a command may run twice."""

    def __init__(self, redis_url: str, timeout_s: float) -> None:
        """Raises ValueError for an invalid address."""
        discovery = make_discovery(parse_redis_url(redis_url))
        self._cluster = ClusterConnections(discovery, timeout_s) if isinstance(discovery, ClusterSlots) else None
        self._server = ServerConnection(lambda: discovery.find_primary(0), timeout_s, may_move=discovery.may_move)

    async def close(self) -> None:
        await self._server.close()
        if self._cluster is not None:
            await self._cluster.close()

    async def run(self, key: bytes, request: bytes) -> Any:
        """Returns the reply. A cancellation ends the wait, not the command."""
        if self._cluster is not None:
            return await self._cluster.call(key, request)
        return await self._server.call(request)

    async def run_all(self, requests: Sequence[KeyCommand]) -> list[Any]:
        """Sends commands together, and returns their replies. Raises the first error, once all are done."""
        if self._cluster is not None:
            replies = await self._cluster.call_all(requests)
        else:
            replies = await self._server.call_all([request for _, request in requests])
        for reply in replies:
            if isinstance(reply, RedisReplyError):
                raise reply
        return replies

    async def run_script(self, script: Script, key: bytes, arguments: Sequence[bytes]) -> Any:
        try:
            return await self.run(key, script.call_by_hash((key,), arguments))
        except RedisReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        return await self.run(key, script.call_by_text((key,), arguments))

    async def scan(self, pattern: bytes, count: int) -> AsyncIterator[list[bytes]]:
        """All keys that match, some at a time; a key may come twice."""
        for server in [self._server] if self._cluster is None else await self._cluster.primaries():
            cursor = b"0"
            while True:
                cursor, keys = await server.call(command((b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"%d" % count)))
                yield keys
                if cursor == b"0":
                    break
