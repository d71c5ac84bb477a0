"""Copies of erased inferences in Redis: stored responses, the index of their items, responses kept for an Idempotency-Key."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from types import TracebackType
from typing import Literal

from app.domain.uuid7 import is_uuid7
from app.store.redis.idempotent_responses import CLAIM_PREFIX, SPOOL_PREFIX
from app.store.redis.redis_client import RedisClient, RedisErrors
from app.store.redis.resp import command
from app.store.redis.response_cache import ITEM_PREFIX, RESPONSE_PREFIX
from app.store.redis.scripts import make_script

Store = Literal["stored_responses", "response_items", "idempotent_responses"]

_SCANNED_KEYS = 1000  # about so many at a time
_TIMEOUT_S = 10.0  # of one command

# The claim stays: a retry must not run the request once more. Its response is gone, as one that was too large to be kept.
_ERASE_ANSWER = make_script("""
if redis.call('HGET', KEYS[1], 'inference') ~= ARGV[1] or redis.call('HGET', KEYS[1], 'state') ~= 'answered' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'unkept')
redis.call('HDEL', KEYS[1], 'answer')
return 1
""")

FindErased = Callable[[Collection[str]], Awaitable[Collection[str]]]  # which of these inferences are erased


class CopiesUnavailable(Exception):
    """Redis is unavailable or failed."""


class CopyStore:
    """The copies in Redis, as an asynchronous context manager. Its methods raise CopiesUnavailable.

    If `redis_url` is None, there is no Redis, and so no copy.
    """

    def __init__(self, redis_url: str | None) -> None:
        self._redis = RedisClient(redis_url, _TIMEOUT_S) if redis_url else None

    async def __aenter__(self) -> "CopyStore":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._redis is not None:
            await self._redis.close()

    async def erase(self, find_erased: FindErased) -> Counter[Store]:
        """Erase every copy of an erased inference; returns how many there were."""
        erased: Counter[Store] = Counter()
        async for found in self._find(find_erased):
            erased += await self._erase(found)
        return erased

    async def count(self, find_erased: FindErased) -> Counter[Store]:
        """Count the copies of erased inferences, by store."""
        counted: Counter[Store] = Counter()
        async for found in self._find(find_erased):
            counted.update(store for store, _, _ in found)
        return counted

    async def _find(self, find_erased: FindErased) -> AsyncIterator[Sequence[tuple[Store, bytes, str]]]:
        """Copies of erased inferences, in batches: the store, the key and the inference."""
        if self._redis is None:
            return
        try:
            async for keys in self._redis.scan(b"nx:[ir]*", _SCANNED_KEYS):
                copies = await self._copies(self._redis, keys)
                erased = await find_erased({id for _, _, id in copies}) if copies else ()
                if found := [copy for copy in copies if copy[2] in erased]:
                    yield found
        except RedisErrors as fault:
            raise CopiesUnavailable(repr(fault)) from fault

    async def _copies(self, redis: RedisClient, keys: Collection[bytes]) -> list[tuple[Store, bytes, str]]:
        """Return the copies that these keys hold: the store, the key and the inference of each."""
        found: list[tuple[Store, bytes, bytes]] = []
        claims, items = list[bytes](), list[bytes]()
        for key in set(keys):
            if key.startswith(RESPONSE_PREFIX):
                found.append(("stored_responses", key, key.removeprefix(RESPONSE_PREFIX)))
            elif key.startswith(ITEM_PREFIX):
                items.append(key)
            elif key.startswith(CLAIM_PREFIX.encode()) and not key.startswith(SPOOL_PREFIX.encode()):
                claims.append(key)
        replies = await redis.run_all(
            [
                *((key, command((b"HMGET", key, b"inference", b"state"))) for key in claims),
                *((key, command((b"GET", key))) for key in items),
                *((key, command((b"GETRANGE", key, b"0", b"6"))) for _, key, _ in found),
            ]
        )
        of_claims, of_items, begins = replies[: len(claims)], replies[len(claims) :][: len(items)], replies[len(claims) + len(items) :]
        copies: list[tuple[Store, bytes, bytes | None]] = [
            *(("idempotent_responses", key, id) for key, (id, state) in zip(claims, of_claims, strict=True) if state == b"answered"),
            *(("response_items", key, id) for key, id in zip(items, of_items, strict=True)),
            # A mark of a response that its caller deleted is no copy.
            *(copy for copy, begin in zip(found, begins, strict=True) if begin not in (b"", b"deleted")),
        ]
        return [(store, key, id.decode()) for store, key, id in copies if id and is_uuid7(id.decode("latin-1"))]

    async def _erase(self, copies: Sequence[tuple[Store, bytes, str]]) -> Counter[Store]:
        assert self._redis is not None
        try:
            replies = await self._redis.run_all([(key, _erase_command(store, key, id)) for store, key, id in copies])
        except RedisErrors as fault:
            raise CopiesUnavailable(repr(fault)) from fault
        return Counter(store for (store, _, _), reply in zip(copies, replies, strict=True) if reply)


def _erase_command(store: Store, key: bytes, id: str) -> bytes:
    if store == "idempotent_responses":
        return _ERASE_ANSWER.call_by_text((key,), (id.encode(),))
    return command((b"UNLINK", key))
