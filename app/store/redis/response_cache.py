"""Responses that callers may continue, in Redis before their last byte is sent: their records in Postgres come a moment later.

One string for each, under `nx:r:`, lives for `responses_keep_s`: the packed request and response, or a mark that it was deleted.
Under `nx:ri:TEAM:ID` is the response that contains an item with this id of an engine; empty if several do. After Redis was
unavailable it is not tried again for a second: no request may become slow for something that Postgres will know too.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Struct
from redis.exceptions import RedisError

from app.domain.episode_names import RecordedEpisode
from app.store.formats.content_packing import pack_beside_loop, unpack_beside_loop
from app.store.redis.redis_client import create_redis

RESPONSE_PREFIX = "nx:r:"
ITEM_PREFIX = "nx:ri:"
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
        self._redis = create_redis(redis_url, timeout_s)
        self._keep_ms = max(1, round(keep_s * 1000))
        self._timeout_s = timeout_s
        self._unavailable_until = 0.0  # by time.monotonic
        self._pending: set[asyncio.Future[Any]] = set()

    async def close(self) -> None:
        if self._pending:
            await asyncio.wait(self._pending, timeout=self._timeout_s)
        await self._redis.aclose()

    async def ping(self) -> None:
        await self._run(self._redis.exists(RESPONSE_PREFIX))

    async def put(self, id: str, cached: CachedResponse, item_ids: Sequence[str] = ()) -> None:
        """Store a response. find_by_item_ids() finds it by the ids of its items, `item_ids`."""
        self._check_available()
        encoded = msgspec.msgpack.encode(cached)
        packed = await pack_beside_loop(encoded)
        # nx: an existing entry is the mark of a response that was deleted before its last byte.
        keys = [_item_key(cached.team_id, item_id) for item_id in item_ids if len(item_id) <= _MAX_ITEM_ID_CHARACTERS]
        if not keys:
            await self._run(self._redis.set(RESPONSE_PREFIX + id, packed, px=self._keep_ms, nx=True))
            return
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.set(RESPONSE_PREFIX + id, packed, px=self._keep_ms, nx=True)
        for key in keys:
            pipeline.set(key, id, px=self._keep_ms, nx=True)
        _, *set_results = await self._run(pipeline.execute())
        ambiguous_keys = [key for key, is_new in zip(keys, set_results, strict=True) if not is_new]
        if ambiguous_keys:
            await self._mark_ambiguous(id, ambiguous_keys)

    async def _mark_ambiguous(self, id: str, keys: Sequence[str]) -> None:
        """Mark item ids that several responses have, as engines that restart their counters reuse ids: they must not find one of them."""
        owners = cast("list[bytes | None]", await self._run(self._redis.mget(keys)))
        pipeline = self._redis.pipeline(transaction=False)
        for key, owner in zip(keys, owners, strict=True):
            if owner != id.encode():
                pipeline.set(key, b"", px=self._keep_ms)
        await self._run(pipeline.execute())

    async def find_by_item_ids(self, team_id: str, item_ids: Sequence[str]) -> list[str | Literal["several"] | None]:
        """The id of the response that contains each item; "several" if it is ambiguous."""
        self._check_available()
        keys = [_item_key(team_id, item_id[: _MAX_ITEM_ID_CHARACTERS + 1]) for item_id in item_ids]
        owners = cast("list[bytes | None]", await self._run(self._redis.mget(keys)))
        return [None if owner is None else owner.decode() or "several" for owner in owners]

    async def get(self, id: str) -> CachedResponse | Literal["deleted"] | None:
        self._check_available()
        packed = cast("bytes | None", await self._run(self._redis.get(RESPONSE_PREFIX + id)))
        if packed is None or packed == _DELETED:
            return None if packed is None else "deleted"
        encoded = await unpack_beside_loop(packed)
        return msgspec.msgpack.decode(encoded, type=CachedResponse)

    async def delete(self, id: str) -> None:
        """Mark a response as deleted for as long as it might be stored; after that Postgres, which knows it too, is queried."""
        await self._run(self._redis.set(RESPONSE_PREFIX + id, _DELETED, px=self._keep_ms))

    def _check_available(self) -> None:
        if time.monotonic() < self._unavailable_until:
            raise ResponseCacheUnavailable("It was unavailable a moment ago")

    async def _run(self, operation: Awaitable[T]) -> T:
        # A disconnect cancels the wait, not the command: redis-py 8.1 may swallow a cancellation, and an engine would be called for
        # nobody.
        future = asyncio.ensure_future(operation)
        self._pending.add(future)
        future.add_done_callback(self._on_done)
        try:
            return await asyncio.shield(future)
        except (RedisError, OSError) as fault:
            self._unavailable_until = time.monotonic() + _COOLDOWN_S
            raise ResponseCacheUnavailable(repr(fault)) from fault

    def _on_done(self, future: asyncio.Future[Any]) -> None:
        self._pending.discard(future)
        if not future.cancelled():
            future.exception()  # marks it as retrieved: nobody may be waiting any more


def _item_key(team_id: str, item_id: str) -> str:
    return f"{ITEM_PREFIX}{team_id}:{item_id}"
