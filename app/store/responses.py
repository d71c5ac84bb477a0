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

from app.record.content import pack, unpack
from app.store.pool import pooled

_PREFIX = "nx:r:"
_ITEM_PREFIX = "nx:ri:"
_LONGEST_ITEM_ID = 256
_DELETED = b"deleted"  # what is packed begins with a zero byte or an x
_LARGE_BYTES = 64 * 1024  # packed and unpacked on a thread
_REST_S = 1.0

T = TypeVar("T")


class ResponsesAway(Exception):
    """Redis cannot be asked, or does not do as it is asked."""


class Kept(Struct, frozen=True, array_like=True):
    """An ask as it came and the Response object that answered it. Fields are only ever appended, with defaults."""

    team_id: str
    asked: bytes
    response: bytes


class Responses:
    """Everything raises ResponsesAway. Ids are those of the inferences."""

    def __init__(self, redis_url: str, *, keep_s: float, patience_s: float) -> None:
        self._redis = pooled(redis_url, patience_s)
        self._keep_ms = max(1, round(keep_s * 1000))
        self._patience_s = patience_s
        self._rests_until = 0.0  # by time.monotonic
        self._asking: set[asyncio.Future[Any]] = set()

    async def close(self) -> None:
        if self._asking:
            await asyncio.wait(self._asking, timeout=self._patience_s)
        await self._redis.aclose()

    async def ping(self) -> None:
        await self._asked(self._redis.exists(_PREFIX))

    async def put(self, id: str, kept: Kept, item_ids: Sequence[str] = ()) -> None:
        """`item_ids`: of items by which this answer is to be found."""
        self._check_rest()
        encoded = msgspec.msgpack.encode(kept)
        packed = pack(encoded) if len(encoded) < _LARGE_BYTES else await asyncio.to_thread(pack, encoded)
        # What is there already was deleted, before its last byte.
        keys = [_item_key(kept.team_id, item_id) for item_id in item_ids if len(item_id) <= _LONGEST_ITEM_ID]
        if not keys:
            await self._asked(self._redis.set(_PREFIX + id, packed, px=self._keep_ms, nx=True))
            return
        at_once = self._redis.pipeline(transaction=False)
        at_once.set(_PREFIX + id, packed, px=self._keep_ms, nx=True)
        for key in keys:
            at_once.set(key, id, px=self._keep_ms, nx=True)
        _, *are_new = await self._asked(at_once.execute())
        taken = [key for key, is_new in zip(keys, are_new, strict=True) if not is_new]
        if taken:
            await self._share(id, taken)

    async def _share(self, id: str, keys: Sequence[str]) -> None:
        """Engines that begin their counting anew give ids twice. What two answers could mean must not be taken for one of them."""
        owners = cast("list[bytes | None]", await self._asked(self._redis.mget(keys)))
        at_once = self._redis.pipeline(transaction=False)
        for key, owner in zip(keys, owners, strict=True):
            if owner != id.encode():
                at_once.set(key, b"", px=self._keep_ms)
        await self._asked(at_once.execute())

    async def answers_with(self, team_id: str, item_ids: Sequence[str]) -> list[str | Literal["several"] | None]:
        """The answer that each of these items is part of."""
        self._check_rest()
        keys = [_item_key(team_id, item_id[: _LONGEST_ITEM_ID + 1]) for item_id in item_ids]
        owners = cast("list[bytes | None]", await self._asked(self._redis.mget(keys)))
        return [None if owner is None else owner.decode() or "several" for owner in owners]

    async def get(self, id: str) -> Kept | Literal["deleted"] | None:
        self._check_rest()
        packed = cast("bytes | None", await self._asked(self._redis.get(_PREFIX + id)))
        if packed is None or packed == _DELETED:
            return None if packed is None else "deleted"
        encoded = unpack(packed) if len(packed) < _LARGE_BYTES else await asyncio.to_thread(unpack, packed)
        return msgspec.msgpack.decode(encoded, type=Kept)

    async def delete(self, id: str) -> None:
        """For as long as it might have been there: by then Postgres is asked, which knows it too."""
        await self._asked(self._redis.set(_PREFIX + id, _DELETED, px=self._keep_ms))

    def _check_rest(self) -> None:
        if time.monotonic() < self._rests_until:
            raise ResponsesAway("It was away a moment ago")

    async def _asked(self, question: Awaitable[T]) -> T:
        # A caller who leaves ends the waiting, not the question: redis-py 8.1 may swallow a cancellation, and an engine would be asked
        # for nobody.
        asking = asyncio.ensure_future(question)
        self._asking.add(asking)
        asking.add_done_callback(self._answered)
        try:
            return await asyncio.shield(asking)
        except (RedisError, OSError) as fault:
            self._rests_until = time.monotonic() + _REST_S
            raise ResponsesAway(repr(fault)) from fault

    def _answered(self, asking: asyncio.Future[Any]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # noted: nobody may be waiting for it any more


def _item_key(team_id: str, item_id: str) -> str:
    return f"{_ITEM_PREFIX}{team_id}:{item_id}"
