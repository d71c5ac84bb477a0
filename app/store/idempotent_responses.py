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

from app.store.content_packing import pack, unpack
from app.store.redis_client import create_redis

_PREFIX = "nx:i:"
_THREAD_PACK_BYTES = 64 * 1024  # packed and unpacked on a thread
_MAX_RENEWALS_PER_PIPELINE = 500  # renewals in one pipeline

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

_MARK_STORED = _NOW + "redis.call('SET', KEYS[1], now - ARGV[1], 'PX', ARGV[2])\nreturn 1"


class IdempotencyStoreUnavailable(Exception):
    """Redis cannot be asked, or does not do as it is asked; whether it has done it is not known."""


class StoredResponse(Struct, frozen=True, array_like=True):
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


class ClaimRequest(Struct):
    """Who claims what. `inference_id` and `spool` are of the one whose answer is owed: the owner's own, unless it took over."""

    key: str
    owner: str
    digest: str
    inference_id: str
    spool: str


class ClaimResult(Struct, frozen=True):
    """What became of a claim. `taken`: its owner is silent, we are in its place, and have to find out about `inference_id` first."""

    state: Literal["claimed", "running", "answered", "unkept", "reused", "taken"]
    inference_id: str
    stored_response: StoredResponse | None = None
    spool: str = ""
    taken_over_ms: int = 0


class IdempotencyStore:
    """Claims and answers. Everything raises AnswersAway."""

    def __init__(self, redis_url: str, *, keep_s: float, lease_s: float, grace_s: float, timeout_s: float) -> None:
        self._redis = create_redis(redis_url, timeout_s)
        self._lease_ms, self._keep_ms, self._grace_ms = round(lease_s * 1000), max(1, round(keep_s * 1000)), round(grace_s * 1000)
        register = self._redis.register_script
        self._claim, self._renew, self._finish = register(_CLAIM), register(_RENEW), register(_FINISH)
        self._release, self._mark_stored = register(_RELEASE), register(_MARK_STORED)

    async def close(self) -> None:
        await self._redis.aclose()

    async def claim(self, claim_request: ClaimRequest) -> ClaimResult:
        """Claims it, if nobody has, or whoever has is silent for longer than lease and grace."""
        reply = await _run(
            self._claim,
            claim_request.key,
            [
                claim_request.owner,
                claim_request.digest,
                claim_request.inference_id,
                claim_request.spool,
                self._lease_ms,
                self._keep_ms,
                self._grace_ms,
            ],
        )
        state, inference_id, *details = cast("list[bytes]", reply)
        result = ClaimResult(cast("Any", state.decode()), inference_id.decode())
        match result.state:
            case "answered":
                return msgspec.structs.replace(result, stored_response=await _unpack_response(details[0]))
            case "taken":
                return msgspec.structs.replace(result, spool=details[0].decode(), taken_over_ms=int(float(details[1])))
            case _:
                return result

    async def renew(self, claims: Sequence[ClaimRequest]) -> list[bool]:
        """Which of them are still ours, now for another lease."""
        renewed: list[bool] = []
        for start in range(0, len(claims), _MAX_RENEWALS_PER_PIPELINE):
            renewed += await self._renew_some(claims[start : start + _MAX_RENEWALS_PER_PIPELINE])
        return renewed

    async def _renew_some(self, claims: Iterable[ClaimRequest]) -> list[bool]:
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for each in claims:
                    arguments = [each.owner, each.digest, each.inference_id, each.spool, self._lease_ms, self._keep_ms]
                    await self._renew(keys=[each.key], args=arguments, client=pipeline)
                return [reply == 1 for reply in await pipeline.execute()]
        except (RedisError, OSError) as fault:
            raise IdempotencyStoreUnavailable(repr(fault)) from fault

    async def finish(self, claim_request: ClaimRequest, stored_response: StoredResponse | None) -> bool:
        """Keeps the answer; None: there is one that cannot be told again. False: the claim is another's by now."""
        packed = b"" if stored_response is None else await _pack_response(stored_response)
        state = "unkept" if stored_response is None else "answered"
        arguments = [claim_request.owner, claim_request.digest, claim_request.inference_id, self._keep_ms, state, packed]
        return await _run(self._finish, claim_request.key, arguments) == 1

    async def release(self, claim_request: ClaimRequest, inference_id: str) -> None:
        """Lets the next one have it. `inference_id`: the owner's own; if another's is there yet, that is still to be found out about."""
        await _run(self._release, claim_request.key, [claim_request.owner, inference_id])

    async def mark_stored(self, spool: str, age_s: float) -> None:
        """All that was recorded in this spool before `age_s` ago is in Postgres."""
        await _run(self._mark_stored, f"{_PREFIX}spool:{spool}", [round(age_s * 1000), self._keep_ms])

    async def stored_until_ms(self, spool: str) -> int:
        """Up to when all that was recorded in a spool is in Postgres, by Redis's clock; 0: nobody has told."""
        try:
            reply = cast("bytes | None", await self._redis.get(f"{_PREFIX}spool:{spool}"))
        except (RedisError, OSError) as fault:
            raise IdempotencyStoreUnavailable(repr(fault)) from fault
        return int(float(reply or 0))


def claim_key(digest: str) -> str:
    """Where the claim and the answer lie of what has this digest."""
    return _PREFIX + digest


async def _run(script: AsyncScript, key: str, arguments: list[Any]) -> Any:
    try:
        return await script(keys=[key], args=arguments)
    except (RedisError, OSError) as fault:
        raise IdempotencyStoreUnavailable(repr(fault)) from fault


async def _pack_response(stored_response: StoredResponse) -> bytes:
    encoded = msgspec.msgpack.encode(stored_response)
    return pack(encoded) if len(encoded) < _THREAD_PACK_BYTES else await asyncio.to_thread(pack, encoded)


async def _unpack_response(packed: bytes) -> StoredResponse:
    encoded = unpack(packed) if len(packed) < _THREAD_PACK_BYTES else await asyncio.to_thread(unpack, packed)
    return msgspec.msgpack.decode(encoded, type=StoredResponse)
