"""The connections to the primaries of a cluster: a command goes to the owner of its key's slot, wherever that is by now."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

from app.store.redis.address import Address
from app.store.redis.discovery import ClusterSlots
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from app.store.redis.server_connection import ServerConnection
from app.store.redis.slots import key_slot

# A command, with the key that it is about.
KeyCommand = tuple[bytes, bytes]

_MAX_TRIES = 5
_ASKING = command((b"ASKING",))


class ClusterConnections:
    """Commands about one key each. They raise RedisUnavailable or RedisReplyError, and may run twice."""

    def __init__(self, slots: ClusterSlots, timeout_s: float) -> None:
        self._slots = slots
        self._timeout_s = timeout_s
        self._servers: dict[tuple[str, int], ServerConnection] = {}
        self._refreshing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def call(self, key: bytes, request: bytes) -> Any:
        """Returns the reply of the slot's owner. If that has failed or is no longer the owner, its successor is looked for."""
        slot = key_slot(key)
        if not self._slots.is_known:
            await self._refresh()
        importing: Address | None = None  # where the key is while its slot moves
        for _ in range(_MAX_TRIES):
            owner = importing or self._slots.owner(slot)
            try:
                if importing is None:
                    return await self._server(owner).call(request)
                _, reply = await self._server(importing).call_all((_ASKING, request))
                if not isinstance(reply, RedisReplyError):
                    return reply
                raise reply
            except RedisUnavailable:
                await self._refresh()
                if self._slots.owner(slot) == owner:
                    raise
                importing = None
            except RedisReplyError as error:
                redirection, _, rest = str(error).partition(" ")
                if redirection == "ASK":
                    importing = self._slots.node_at(owner, rest)
                elif redirection == "MOVED":
                    importing = None
                    await self._refresh()
                else:
                    raise
        raise RedisUnavailable(f"Slot {slot} of the cluster moves from node to node.", unsent=True)

    async def call_all(self, requests: Sequence[KeyCommand]) -> list[Any]:
        """Returns for each command its reply, or its RedisReplyError. Raises RedisUnavailable."""
        replies = await asyncio.gather(*(self.call(key, request) for key, request in requests), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(reply, RedisReplyError):
                raise reply
        return replies

    async def primaries(self) -> list[ServerConnection]:
        """Connections to all that own slots now. Raises RedisUnavailable."""
        await self._refresh()
        return [self._server(address) for address in self._slots.primaries]

    def _server(self, address: Address) -> ServerConnection:
        server = self._servers.get((address.host, address.port))
        if server is None:
            server = ServerConnection(functools.partial(_same, address), self._timeout_s)
            self._servers[address.host, address.port] = server
        return server

    async def _refresh(self) -> None:
        """Reads the owners anew, once for all that want it. Raises RedisUnavailable."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_once())
        await asyncio.shield(self._refreshing)

    async def _refresh_once(self) -> None:
        await self._slots.refresh()
        owners = {(each.host, each.port) for each in self._slots.primaries}
        for gone in self._servers.keys() - owners:
            await self._servers.pop(gone).close()


async def _same(address: Address) -> Address:
    return address
