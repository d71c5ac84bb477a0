"""Responses that callers may continue, in Redis before their last byte is sent: their records in Postgres come a moment later.

One string for each, under `nx:r:`, lives for `responses_keep_s`: the packed request and response, or a mark that it was deleted.
Under `nx:ri:TEAM:ID` is the response that contains an item with this id of an engine; empty if several do. After Redis was
unavailable it is not tried again for a second: no request may become slow for something that Postgres will know too.
"""

import time
from collections.abc import Awaitable, Sequence
from typing import Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from app.domain.episode_names import RecordedEpisode
from app.store.formats.content_packing import pack_beside_loop, unpack_beside_loop
from app.store.redis.cluster_connections import KeyCommand
from app.store.redis.redis_client import RedisClient, RedisErrors
from app.store.redis.resp import command

RESPONSE_PREFIX = b"nx:r:"
ITEM_PREFIX = b"nx:ri:"
_MAX_ITEM_ID_CHARACTERS = 256
_DELETED = b"deleted"  # packed content begins with a zero byte or an x
_COOLDOWN_S = 1.0

T = TypeVar("T")


class ResponseCacheUnavailable(Exception):
    """Redis is unavailable or failed."""


class CachedResponse(Struct, frozen=True, array_like=True):
    """A request as it came, and its Response object. Fields are only ever appended, with defaults."""

    team_id: str
    request: bytes
    response: bytes
    episode: RecordedEpisode | None = None  # None: stored by an older version


class ResponseCache:
    """Stored responses by inference id. Every method raises ResponseCacheUnavailable."""

    def __init__(self, redis_url: str, *, keep_s: float, timeout_s: float) -> None:
        self._redis = RedisClient(redis_url, timeout_s)
        self._keep_ms = b"%d" % max(1, round(keep_s * 1000))
        self._unavailable_until = 0.0  # by time.monotonic

    async def close(self) -> None:
        await self._redis.close()

    async def ping(self) -> None:
        await self._run(self._redis.run(b"", command((b"EXISTS", RESPONSE_PREFIX))))

    async def put(self, id: str, cached: CachedResponse, item_ids: Sequence[str] = ()) -> None:
        """Store a response. find_by_item_ids() finds it by the ids of its items, `item_ids`."""
        self._check_available()
        encoded = msgspec.msgpack.encode(cached)
        packed = await pack_beside_loop(encoded)
        # An existing entry is the mark of a response that was deleted before its last byte.
        stored = self._set_if_new(RESPONSE_PREFIX + id.encode(), packed)
        keys = [_item_key(cached.team_id, item_id) for item_id in item_ids if len(item_id) <= _MAX_ITEM_ID_CHARACTERS]
        if not keys:
            await self._run(self._redis.run(*stored))
            return
        _, *set_results = await self._run(self._redis.run_all([stored, *(self._set_if_new(key, id.encode()) for key in keys)]))
        ambiguous_keys = [key for key, is_new in zip(keys, set_results, strict=True) if not is_new]
        if ambiguous_keys:
            await self._mark_ambiguous(id, ambiguous_keys)

    async def _mark_ambiguous(self, id: str, keys: Sequence[bytes]) -> None:
        """Mark item ids that several responses have, as engines that restart their counters reuse ids: they must not find one of them."""
        owners = await self._read_all(keys)
        ambiguous_keys = [key for key, owner in zip(keys, owners, strict=True) if owner != id.encode()]
        await self._run(self._redis.run_all([(key, command((b"SET", key, b"", b"PX", self._keep_ms))) for key in ambiguous_keys]))

    async def find_by_item_ids(self, team_id: str, item_ids: Sequence[str]) -> list[str | Literal["several"] | None]:
        """The id of the response that contains each item; "several" if it is ambiguous."""
        self._check_available()
        owners = await self._read_all([_item_key(team_id, item_id[: _MAX_ITEM_ID_CHARACTERS + 1]) for item_id in item_ids])
        return [None if owner is None else owner.decode() or "several" for owner in owners]

    async def get(self, id: str) -> CachedResponse | Literal["deleted"] | None:
        self._check_available()
        key = RESPONSE_PREFIX + id.encode()
        packed = cast("bytes | None", await self._run(self._redis.run(key, command((b"GET", key)))))
        if packed is None or packed == _DELETED:
            return None if packed is None else "deleted"
        encoded = await unpack_beside_loop(packed)
        return msgspec.msgpack.decode(encoded, type=CachedResponse)

    async def delete(self, id: str) -> None:
        """Mark a response as deleted for as long as it might be stored; after that Postgres, which knows it too, is queried."""
        key = RESPONSE_PREFIX + id.encode()
        await self._run(self._redis.run(key, command((b"SET", key, _DELETED, b"PX", self._keep_ms))))

    async def _read_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return await self._run(self._redis.run_all([(key, command((b"GET", key))) for key in keys]))

    def _set_if_new(self, key: bytes, value: bytes) -> KeyCommand:
        # In one step: each stored response pays for it.
        encoded = b"*6\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$2\r\nPX\r\n$%d\r\n%b\r\n$2\r\nNX\r\n" % (
            *(len(key), key, len(value), value),
            *(len(self._keep_ms), self._keep_ms),
        )
        return key, encoded

    def _check_available(self) -> None:
        if time.monotonic() < self._unavailable_until:
            raise ResponseCacheUnavailable("It was unavailable a moment ago")

    async def _run(self, operation: Awaitable[T]) -> T:
        try:
            return await operation
        except RedisErrors as fault:
            self._unavailable_until = time.monotonic() + _COOLDOWN_S
            raise ResponseCacheUnavailable(repr(fault)) from fault


def _item_key(team_id: str, item_id: str) -> bytes:
    return b"%b%b:%b" % (ITEM_PREFIX, team_id.encode(), item_id.encode(errors="surrogatepass"))
