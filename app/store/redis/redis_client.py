"""Redis for what is not the limits': stored responses, claims, their copies. Its connection is its own: neither waits for the other.

One pipelined connection for each server, instead of a pool of connections that a task holds while it waits: a command costs a tenth of
what it costs through redis-py.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from app.store.redis.address import parse_address
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from app.store.redis.scripts import Script
from app.store.redis.server_connection import ServerConnection

RedisErrors = (RedisUnavailable, RedisReplyError)

# A command, with the key that it is about.
KeyCommand = tuple[bytes, bytes]


class RedisClient:
    """Commands about one key each. Every method raises RedisUnavailable or RedisReplyError; a command may run twice."""

    def __init__(self, redis_url: str, timeout_s: float) -> None:
        """Raises ValueError for an invalid address."""
        self._server = ServerConnection(parse_address(redis_url), timeout_s)

    async def close(self) -> None:
        await self._server.close()

    async def run(self, key: bytes, request: bytes) -> Any:
        """Returns the reply. A cancellation ends the wait, not the command."""
        return await self._server.call(request)

    async def run_all(self, requests: Sequence[KeyCommand]) -> list[Any]:
        """Sends commands together, and returns their replies. Raises the first error, once all are done."""
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
        cursor = b"0"
        while True:
            cursor, keys = await self._server.call(command((b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"%d" % count)))
            yield keys
            if cursor == b"0":
                return
