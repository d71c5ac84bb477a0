"""Finding the server that takes writes: the one that is named, the primary that Sentinels agree on, or the owner of a slot of a cluster."""

import asyncio
import random
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from app.store.redis.address import Address
from app.store.redis.opening import query_server
from app.store.redis.redis_url import RedisUrl
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command

# So often it is looked whether another server has become the primary, though the old one still answers.
_WATCH_INTERVAL_S = 2.0
_MAX_QUERY_S = 1.0


class Discovery(Protocol):
    """Finds primaries. `may_move` says that another server may be one later."""

    @property
    def may_move(self) -> bool: ...

    async def find_primary(self, slot: int) -> Address:
        """The server that takes writes to a slot, as it is known now. Raises RedisUnavailable."""
        ...


class NamedServer(Struct, frozen=True):
    """The one server that REDIS_URL names."""

    address: Address
    may_move: bool = False

    async def find_primary(self, slot: int) -> Address:
        return self.address


class SentinelPrimary:
    """The primary of a service, as the Sentinel with the newest configuration knows it."""

    may_move = True

    def __init__(self, url: RedisUrl) -> None:
        self._url = url
        service = url.service.encode()
        self._questions = [command((b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service)), command((b"SENTINEL", b"MASTER", service))]

    async def find_primary(self, slot: int) -> Address:
        queries = [query_server(sentinel, self._questions, _MAX_QUERY_S) for sentinel in self._url.seeds]
        replies = await asyncio.gather(*queries, return_exceptions=True)
        known: list[tuple[int, str, int]] = []
        faults: list[BaseException] = []
        for reply in replies:
            if isinstance(reply, BaseException):
                if not isinstance(reply, RedisUnavailable | RedisReplyError):
                    raise reply
                faults.append(reply)
            elif reply[0] is not None:
                host, port = reply[0]
                known.append((_config_epoch(reply[1]), host.decode(), int(port)))
        if not known:
            reason = f": {faults[0]}" if faults else " by that name."
            raise RedisUnavailable(f"No Sentinel knows a primary {self._url.service!r}{reason}", unsent=True)
        # One that was cut off knows the primary of before.
        _, host, port = max(known, key=lambda each: each[0])
        return self._url.node_at(host, port)


def _config_epoch(fields: Sequence[bytes]) -> int:
    values: Mapping[bytes, bytes] = dict(zip(fields[::2], fields[1::2], strict=False))
    return int(values.get(b"config-epoch", b"0"))


class ClusterSlots:
    """The owner of each slot of a cluster, as one of its nodes knows it."""

    may_move = True

    def __init__(self, url: RedisUrl) -> None:
        self._url = url
        self._firsts: list[int] = []
        self._ranges: list[tuple[int, Address]] = []  # the last slot and the owner, of each range that begins with a slot of `_firsts`

    async def find_primary(self, slot: int) -> Address:
        await self.refresh()
        return self.owner(slot)

    @property
    def is_known(self) -> bool:
        return bool(self._firsts)

    @property
    def primaries(self) -> Sequence[Address]:
        return list({(owner.host, owner.port): owner for _, owner in self._ranges}.values())

    @property
    def owned_count(self) -> int:
        """How many slots have an owner."""
        return sum(last - first + 1 for first, (last, _) in zip(self._firsts, self._ranges, strict=True))

    def owner(self, slot: int) -> Address:
        """The owner as it was at the last refresh(). Raises RedisUnavailable if the slot has none."""
        index = bisect_right(self._firsts, slot) - 1
        if index < 0 or self._ranges[index][0] < slot:
            raise RedisUnavailable(f"No node of the cluster owns slot {slot}.", unsent=True)
        return self._ranges[index][1]

    def node_at(self, redirecting: Address, place: str) -> Address:
        """The node that a MOVED or an ASK names: "SLOT HOST:PORT", without a host if that is the redirecting node's."""
        host, _, port = place.rpartition(" ")[2].rpartition(":")
        return self._url.node_at(host or redirecting.host, int(port))

    async def refresh(self) -> None:
        """Reads the owners from a node that answers. Raises RedisUnavailable."""
        fault: Exception | None = None
        nodes = [*self.primaries, *self._url.seeds]
        random.shuffle(nodes)  # one that was cut off from the others knows the owners of before
        for node in nodes:
            try:
                (reply,) = await query_server(node, (command((b"CLUSTER", b"SLOTS")),), _MAX_QUERY_S)
            except (RedisUnavailable, RedisReplyError) as error:
                fault = error
                continue
            found = sorted(((first, last, self._owner(node, owner)) for first, last, owner, *_ in reply), key=lambda each: each[0])
            self._firsts = [first for first, _, _ in found]
            self._ranges = [(last, owner) for _, last, owner in found]
            return
        raise RedisUnavailable(f"No node of the cluster answers: {fault}", unsent=True)

    def _owner(self, queried: Address, node: Sequence[Any]) -> Address:
        # A node that does not know its own name yet sends none: it is the one that was queried.
        return self._url.node_at(node[0].decode() if node[0] else queried.host, int(node[1]))


def make_discovery(url: RedisUrl) -> Discovery:
    match url.mode:
        case "server":
            return NamedServer(url.node)
        case "sentinel":
            return SentinelPrimary(url)
        case "cluster":
            return ClusterSlots(url)


async def wait_for_other_primary(find_primary: Callable[[], Awaitable[Address]], address: Address) -> Address:
    """Returns the primary as soon as it is another one than `address`.

    A primary that is cut off from the others, and from those who know that another one was chosen, goes on answering.
    """
    while True:
        await asyncio.sleep(_WATCH_INTERVAL_S)
        try:
            found = await find_primary()
        except RedisUnavailable:
            continue
        if (found.host, found.port) != (address.host, address.port):
            return found
