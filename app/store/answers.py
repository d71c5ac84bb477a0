"""Answers kept for retries: who has claimed an Idempotency-Key, and what was answered, in Redis.

One hash for each key, under `nx:i:`, for as long as `idempotency_keep_s` says:

    digest      of the request that the key stands for
    state       running: somebody answers it; answered: `answer` is there; unkept: answered, and cannot be told again
    inference   whose inference it is (or was, while somebody finds out what became of it)
    owner       a nonce of the one request that may answer it; every change compares it
    lease       until when the owner is counted as alive, in milliseconds of Redis's clock; only an owner renews it
    seen        when a retry first saw the lease expired: a live owner has had time to renew it since, as Redis answers again
    spool       where the owner records, so what to wait for before it is said that it recorded nothing
    taken       when the owner before was given up, while it is not known yet what it recorded

`nx:i:spool:NAME` tells up to when all that was recorded in a spool is in Postgres. All times are Redis's own: no clocks are compared.
Each script may be sent twice, as a client does that lost a connection: it then says the same again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from app.record.content import pack, unpack
from app.store.pool import pooled

_PREFIX = "nx:i:"
_LARGE_BYTES = 64 * 1024  # packed and unpacked on a thread
_TOGETHER = 500  # renewals in one pipeline

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"

_CLAIM = (
    _NOW
    + """
local owner, digest, inference, spool, lease_ms, keep_ms, grace_ms = unpack(ARGV)
local at = KEYS[1]
local found = redis.call('HMGET', at, 'digest', 'state', 'inference', 'owner', 'lease', 'seen', 'spool', 'taken')
if not found[1] then
    redis.call('HSET', at, 'digest', digest, 'state', 'running', 'inference', inference, 'owner', owner, 'spool', spool,
        'lease', now + lease_ms)
    redis.call('PEXPIRE', at, keep_ms)
    return {'claimed', inference}
end
if found[1] ~= digest then return {'reused', found[3]} end
if found[2] == 'answered' then return {'answered', found[3], redis.call('HGET', at, 'answer')} end
if found[2] == 'unkept' then return {'unkept', found[3]} end
if found[4] == owner then
    if found[3] == inference then return {'claimed', inference} end
    return {'taken', found[3], found[7], found[8]}
end
if tonumber(found[5]) > now then return {'running', found[3]} end
if not found[6] then
    redis.call('HSET', at, 'seen', now)
    return {'running', found[3]}
end
if now - found[6] < tonumber(grace_ms) then return {'running', found[3]} end
local taken = found[8] or tostring(now)
redis.call('HSET', at, 'owner', owner, 'lease', now + lease_ms, 'taken', taken)
redis.call('HDEL', at, 'seen')
return {'taken', found[3], found[7], taken}
"""
)

# Also what makes it the owner's own after it took it; also what makes it anew after Redis lost its memory.
_RENEW = (
    _NOW
    + """
local owner, digest, inference, spool, lease_ms, keep_ms = unpack(ARGV)
local at = KEYS[1]
local found = redis.call('HMGET', at, 'owner', 'state', 'inference')
if found[1] and (found[1] ~= owner or found[2] ~= 'running') then return 0 end
redis.call('HSET', at, 'digest', digest, 'state', 'running', 'inference', inference, 'owner', owner, 'spool', spool,
    'lease', now + lease_ms)
redis.call('HDEL', at, 'seen')
if found[3] ~= inference then redis.call('HDEL', at, 'taken') end
if not found[1] then redis.call('PEXPIRE', at, keep_ms) end
return 1
"""
)

_FINISH = """
local owner, digest, inference, keep_ms, state, answer = unpack(ARGV)
local at = KEYS[1]
local found = redis.call('HGET', at, 'owner')
if found and found ~= owner then return 0 end
redis.call('HSET', at, 'digest', digest, 'state', state, 'inference', inference, 'owner', owner, 'answer', answer)
redis.call('HDEL', at, 'lease', 'seen', 'spool', 'taken')
redis.call('PEXPIRE', at, keep_ms)
return 1
"""

# Who has not found out yet what became of the inference before leaves it to the next one, who need not wait.
_RELEASE = """
local owner, inference = unpack(ARGV)
local at = KEYS[1]
local found = redis.call('HMGET', at, 'owner', 'state', 'inference')
if found[1] ~= owner or found[2] ~= 'running' then return 0 end
if found[3] == inference then redis.call('DEL', at) else redis.call('HSET', at, 'lease', 0, 'seen', 0) end
return 1
"""

_TELL_WRITTEN = _NOW + "redis.call('SET', KEYS[1], now - ARGV[1], 'PX', ARGV[2])\nreturn 1"


class AnswersAway(Exception):
    """Redis cannot be asked, or does not do as it is asked; whether it has done it is not known."""


class Answer(Struct, frozen=True, array_like=True):
    """What a caller was told in full, and may be told again. Fields are only ever appended, with defaults."""

    inference_id: str
    episode_id: str
    streamed: bool
    body: bytes
    served_provider: str | None = None
    served_model: str | None = None
    dropped: tuple[str, ...] = ()
    status: int = 200
    guided: str | None = None


class Claiming(Struct):
    """Who claims what. `inference_id` and `spool` are of the one whose answer is owed: the owner's own, unless it took over."""

    at: str
    owner: str
    digest: str
    inference_id: str
    spool: str


class Found(Struct, frozen=True):
    """What became of a claim. `taken`: its owner is silent, we are in its place, and have to find out about `inference_id` first."""

    state: Literal["claimed", "running", "answered", "unkept", "reused", "taken"]
    inference_id: str
    answer: Answer | None = None
    spool: str = ""
    taken_ms: int = 0


class Answers:
    """Claims and answers. Everything raises AnswersAway."""

    def __init__(self, redis_url: str, *, keep_s: float, lease_s: float, grace_s: float, patience_s: float) -> None:
        self._redis = pooled(redis_url, patience_s)
        self._lease_ms, self._keep_ms, self._grace_ms = round(lease_s * 1000), max(1, round(keep_s * 1000)), round(grace_s * 1000)
        register = self._redis.register_script
        self._claim, self._renew, self._finish = register(_CLAIM), register(_RENEW), register(_FINISH)
        self._release, self._tell_written = register(_RELEASE), register(_TELL_WRITTEN)

    async def close(self) -> None:
        await self._redis.aclose()

    async def claim(self, claiming: Claiming) -> Found:
        """Claims it, if nobody has, or whoever has is silent for longer than lease and grace."""
        told = await _run(
            self._claim,
            claiming.at,
            [claiming.owner, claiming.digest, claiming.inference_id, claiming.spool, self._lease_ms, self._keep_ms, self._grace_ms],
        )
        state, inference_id, *more = cast("list[bytes]", told)
        found = Found(cast("Any", state.decode()), inference_id.decode())
        match found.state:
            case "answered":
                return msgspec.structs.replace(found, answer=await _unpacked(more[0]))
            case "taken":
                return msgspec.structs.replace(found, spool=more[0].decode(), taken_ms=int(float(more[1])))
            case _:
                return found

    async def renew(self, claims: Sequence[Claiming]) -> list[bool]:
        """Which of them are still ours, now for another lease."""
        ours: list[bool] = []
        for start in range(0, len(claims), _TOGETHER):
            ours += await self._renew_some(claims[start : start + _TOGETHER])
        return ours

    async def _renew_some(self, claims: Iterable[Claiming]) -> list[bool]:
        try:
            async with self._redis.pipeline(transaction=False) as together:
                for each in claims:
                    arguments = [each.owner, each.digest, each.inference_id, each.spool, self._lease_ms, self._keep_ms]
                    await self._renew(keys=[each.at], args=arguments, client=together)
                return [told == 1 for told in await together.execute()]
        except (RedisError, OSError) as fault:
            raise AnswersAway(repr(fault)) from fault

    async def finish(self, claiming: Claiming, answer: Answer | None) -> bool:
        """Keeps the answer; None: there is one that cannot be told again. False: the claim is another's by now."""
        packed = b"" if answer is None else await _packed(answer)
        state = "unkept" if answer is None else "answered"
        arguments = [claiming.owner, claiming.digest, claiming.inference_id, self._keep_ms, state, packed]
        return await _run(self._finish, claiming.at, arguments) == 1

    async def release(self, claiming: Claiming, inference_id: str) -> None:
        """Lets the next one have it. `inference_id`: the owner's own; if another's is there yet, that is still to be found out about."""
        await _run(self._release, claiming.at, [claiming.owner, inference_id])

    async def tell_written(self, spool: str, age_s: float) -> None:
        """All that was recorded in this spool before `age_s` ago is in Postgres."""
        await _run(self._tell_written, f"{_PREFIX}spool:{spool}", [round(age_s * 1000), self._keep_ms])

    async def written_ms(self, spool: str) -> int:
        """Up to when all that was recorded in a spool is in Postgres, by Redis's clock; 0: nobody has told."""
        try:
            told = cast("bytes | None", await self._redis.get(f"{_PREFIX}spool:{spool}"))
        except (RedisError, OSError) as fault:
            raise AnswersAway(repr(fault)) from fault
        return int(float(told or 0))


def place(digest: str) -> str:
    """Where the claim and the answer lie of what has this digest."""
    return _PREFIX + digest


async def _run(script: AsyncScript, at: str, arguments: list[Any]) -> Any:
    try:
        return await script(keys=[at], args=arguments)
    except (RedisError, OSError) as fault:
        raise AnswersAway(repr(fault)) from fault


async def _packed(answer: Answer) -> bytes:
    encoded = msgspec.msgpack.encode(answer)
    return pack(encoded) if len(encoded) < _LARGE_BYTES else await asyncio.to_thread(pack, encoded)


async def _unpacked(packed: bytes) -> Answer:
    encoded = unpack(packed) if len(packed) < _LARGE_BYTES else await asyncio.to_thread(unpack, packed)
    return msgspec.msgpack.decode(encoded, type=Answer)
