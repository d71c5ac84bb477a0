"""Responses that a caller may go on from, in Redis from before their last byte goes out: the records in Postgres come a moment later.

One string for each, under `nx:r:`, for as long as `responses_keep_s` says: what was asked and answered, packed, or that it was deleted.
Under `nx:ri:TEAM:ID`, for as long, the answer that an item is part of whose id an engine minted; empty if engines gave it to several.
Whose Redis was found away is not asked again for a second: no request may be slow for what Postgres will know too.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Struct
from redis.exceptions import RedisError

from app.store.content_packing import pack, unpack
from app.store.redis_client import create_redis

_PREFIX = "nx:r:"
_ITEM_PREFIX = "nx:ri:"
_MAX_ITEM_ID_CHARACTERS = 256
_DELETED = b"deleted"  # what is packed begins with a zero byte or an x
_THREAD_PACK_BYTES = 64 * 1024  # packed and unpacked on a thread
_COOLDOWN_S = 1.0

T = TypeVar("T")


class ResponseCacheUnavailable(Exception):
    """Redis cannot be asked, or does not do as it is asked."""


class CachedResponse(Struct, frozen=True, array_like=True):
    """An ask as it came and the Response object that answered it. Fields are only ever appended, with defaults."""

    team_id: str
    request: bytes
    response: bytes


class ResponseCache:
    """Everything raises ResponsesAway. Ids are those of the inferences."""

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
        await self._run(self._redis.exists(_PREFIX))

    async def put(self, id: str, cached: CachedResponse, item_ids: Sequence[str] = ()) -> None:
        """`item_ids`: of items by which this answer is to be found."""
        self._check_available()
        encoded = msgspec.msgpack.encode(cached)
        packed = pack(encoded) if len(encoded) < _THREAD_PACK_BYTES else await asyncio.to_thread(pack, encoded)
        # What is there already was deleted, before its last byte.
        keys = [_item_key(cached.team_id, item_id) for item_id in item_ids if len(item_id) <= _MAX_ITEM_ID_CHARACTERS]
        if not keys:
            await self._run(self._redis.set(_PREFIX + id, packed, px=self._keep_ms, nx=True))
            return
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.set(_PREFIX + id, packed, px=self._keep_ms, nx=True)
        for key in keys:
            pipeline.set(key, id, px=self._keep_ms, nx=True)
        _, *set_results = await self._run(pipeline.execute())
        ambiguous_keys = [key for key, is_new in zip(keys, set_results, strict=True) if not is_new]
        if ambiguous_keys:
            await self._mark_ambiguous(id, ambiguous_keys)

    async def _mark_ambiguous(self, id: str, keys: Sequence[str]) -> None:
        """Engines that begin their counting anew give ids twice. What two answers could mean must not be taken for one of them."""
        owners = cast("list[bytes | None]", await self._run(self._redis.mget(keys)))
        pipeline = self._redis.pipeline(transaction=False)
        for key, owner in zip(keys, owners, strict=True):
            if owner != id.encode():
                pipeline.set(key, b"", px=self._keep_ms)
        await self._run(pipeline.execute())

    async def find_by_item_ids(self, team_id: str, item_ids: Sequence[str]) -> list[str | Literal["several"] | None]:
        """The answer that each of these items is part of."""
        self._check_available()
        keys = [_item_key(team_id, item_id[: _MAX_ITEM_ID_CHARACTERS + 1]) for item_id in item_ids]
        owners = cast("list[bytes | None]", await self._run(self._redis.mget(keys)))
        return [None if owner is None else owner.decode() or "several" for owner in owners]

    async def get(self, id: str) -> CachedResponse | Literal["deleted"] | None:
        self._check_available()
        packed = cast("bytes | None", await self._run(self._redis.get(_PREFIX + id)))
        if packed is None or packed == _DELETED:
            return None if packed is None else "deleted"
        encoded = unpack(packed) if len(packed) < _THREAD_PACK_BYTES else await asyncio.to_thread(unpack, packed)
        return msgspec.msgpack.decode(encoded, type=CachedResponse)

    async def delete(self, id: str) -> None:
        """For as long as it might have been there: by then Postgres is asked, which knows it too."""
        await self._run(self._redis.set(_PREFIX + id, _DELETED, px=self._keep_ms))

    def _check_available(self) -> None:
        if time.monotonic() < self._unavailable_until:
            raise ResponseCacheUnavailable("It was away a moment ago")

    async def _run(self, operation: Awaitable[T]) -> T:
        # A caller who leaves ends the waiting, not the question: redis-py 8.1 may swallow a cancellation, and an engine would be asked
        # for nobody.
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
            future.exception()  # noted: nobody may be waiting for it any more


def _item_key(team_id: str, item_id: str) -> str:
    return f"{_ITEM_PREFIX}{team_id}:{item_id}"
