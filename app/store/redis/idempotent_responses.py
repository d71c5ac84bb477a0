"""Responses kept for retries, in Redis: who has claimed an Idempotency-Key, and what the response was.

There is one hash for each key, under `nx:i:`, which lives for `idempotency_keep_s`:

    digest      of the request that the key stands for
    state       running: a request is in progress; answered: `answer` has the response; unkept: it ended, and is not kept
    inference   the id of the inference (or of the earlier one, until it is known what became of it)
    owner       a nonce of the one request that may complete it; every change compares it
    lease       until when the owner counts as alive, in milliseconds of Redis's clock; only the owner renews it
    seen        when a retry first saw the lease expired: a live owner has had time to renew it since, as Redis is back
    spool       where the owner records: this spool must be stored before it is known that nothing was recorded
    taken       when the previous owner was given up, while it is not known yet what it recorded

`nx:i:spool:NAME` holds the time up to which all records of a spool are in Postgres. All times are Redis's own: no clocks are compared.
Each script may be sent twice, as by a client that lost its connection: it then returns the same again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from app.store.formats.content_packing import pack_beside_loop, unpack_beside_loop
from app.store.redis.redis_client import RedisClient, RedisErrors
from app.store.redis.replies import RedisReplyError
from app.store.redis.resp import command
from app.store.redis.scripts import Script, make_script

CLAIM_PREFIX = "nx:i:"
SPOOL_PREFIX = CLAIM_PREFIX + "spool:"
_MAX_RENEWALS_PER_PIPELINE = 500

Argument = str | int | bytes

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"

_CLAIM = make_script(
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

# Also completes a takeover, and restores the claim after Redis lost its memory.
_RENEW = make_script(
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

_FINISH = make_script("""
local owner, digest, inference, keep_ms, state, answer = unpack(ARGV)
local at = KEYS[1]
local found = redis.call('HGET', at, 'owner')
if found and found ~= owner then return 0 end
redis.call('HSET', at, 'digest', digest, 'state', state, 'inference', inference, 'owner', owner, 'answer', answer)
redis.call('HDEL', at, 'lease', 'seen', 'spool', 'taken')
redis.call('PEXPIRE', at, keep_ms)
return 1
""")

# An owner that took over and does not know yet what became of the earlier inference leaves the claim to the next one, without a wait.
_RELEASE = make_script("""
local owner, inference = unpack(ARGV)
local at = KEYS[1]
local found = redis.call('HMGET', at, 'owner', 'state', 'inference')
if found[1] ~= owner or found[2] ~= 'running' then return 0 end
if found[3] == inference then redis.call('DEL', at) else redis.call('HSET', at, 'lease', 0, 'seen', 0) end
return 1
""")

_MARK_STORED = make_script(_NOW + "redis.call('SET', KEYS[1], now - ARGV[1], 'PX', ARGV[2])\nreturn 1")


class IdempotencyStoreUnavailable(Exception):
    """Redis is unavailable or failed; whether it ran the command is not known."""


class StoredResponse(Struct, frozen=True, array_like=True):
    """A complete response, which may be sent again. Fields are only ever appended, with defaults."""

    inference_id: str
    episode_id: str
    streamed: bool
    body: bytes
    served_provider: str | None = None
    served_model: str | None = None
    dropped: tuple[str, ...] = ()
    status: int = 200
    structured_output: str | None = None
    reported_model: str | None = None
    emulated: tuple[str, ...] = ()
    variant: str | None = None
    served_variant: str | None = None
    experiment: str | None = None
    experiment_version: int | None = None
    not_enrolled: str | None = None


class ClaimRequest(Struct):
    """A claim. `inference_id` and `spool` belong to the inference whose response is wanted: the owner's own, unless it took over."""

    key: str
    owner: str
    digest: str
    inference_id: str
    spool: str


class ClaimResult(Struct, frozen=True):
    """The result of a claim.

    In the state `taken` its owner is silent; the caller takes over, and must find out about `inference_id` first.
    """

    state: Literal["claimed", "running", "answered", "unkept", "reused", "taken"]
    inference_id: str
    stored_response: StoredResponse | None = None
    spool: str = ""
    taken_over_ms: int = 0


class IdempotencyStore:
    """Claims and responses. Every method raises IdempotencyStoreUnavailable."""

    def __init__(self, redis_url: str, *, keep_s: float, lease_s: float, grace_s: float, timeout_s: float) -> None:
        self._redis = RedisClient(redis_url, timeout_s)
        self._lease_ms, self._keep_ms, self._grace_ms = round(lease_s * 1000), max(1, round(keep_s * 1000)), round(grace_s * 1000)

    async def close(self) -> None:
        await self._redis.close()

    async def claim(self, claim_request: ClaimRequest) -> ClaimResult:
        """Claim a key, if nobody has, or if its owner is silent for longer than lease and grace."""
        reply = await self._run(
            _CLAIM,
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
        """Renew claims for another lease; returns for each whether it is still held."""
        renewed: list[bool] = []
        for start in range(0, len(claims), _MAX_RENEWALS_PER_PIPELINE):
            renewed += await self._renew_some(claims[start : start + _MAX_RENEWALS_PER_PIPELINE])
        return renewed

    async def _renew_some(self, claims: Sequence[ClaimRequest]) -> list[bool]:
        keys = [each.key.encode() for each in claims]
        arguments = [_encode((each.owner, each.digest, each.inference_id, each.spool, self._lease_ms, self._keep_ms)) for each in claims]
        requests = list(zip(keys, arguments, strict=True))
        try:
            try:
                replies = await self._redis.run_all([(key, _RENEW.call_by_hash((key,), each)) for key, each in requests])
            except RedisReplyError as error:
                if not str(error).startswith("NOSCRIPT"):
                    raise
                replies = await self._redis.run_all([(key, _RENEW.call_by_text((key,), each)) for key, each in requests])
        except RedisErrors as fault:
            raise IdempotencyStoreUnavailable(repr(fault)) from fault
        return [reply == 1 for reply in replies]

    async def finish(self, claim_request: ClaimRequest, stored_response: StoredResponse | None) -> bool:
        """Keep the response; None: it ended and is not kept. Returns False if the claim is another's by now."""
        packed = b"" if stored_response is None else await _pack_response(stored_response)
        state = "unkept" if stored_response is None else "answered"
        arguments = [claim_request.owner, claim_request.digest, claim_request.inference_id, self._keep_ms, state, packed]
        return await self._run(_FINISH, claim_request.key, arguments) == 1

    async def release(self, claim_request: ClaimRequest, inference_id: str) -> None:
        """Give up a claim.

        `inference_id` is the owner's own; if an earlier one is stored, the next owner must find out about that.
        """
        await self._run(_RELEASE, claim_request.key, [claim_request.owner, inference_id])

    async def mark_stored(self, spool: str, age_s: float) -> None:
        """Note that all records of this spool from before `age_s` ago are in Postgres."""
        await self._run(_MARK_STORED, f"{SPOOL_PREFIX}{spool}", [round(age_s * 1000), self._keep_ms])

    async def stored_until_ms(self, spool: str) -> int:
        """The time up to which all records of a spool are in Postgres, by Redis's clock; 0: unknown."""
        try:
            key = f"{SPOOL_PREFIX}{spool}".encode()
            reply = cast("bytes | None", await self._redis.run(key, command((b"GET", key))))
        except RedisErrors as fault:
            raise IdempotencyStoreUnavailable(repr(fault)) from fault
        return int(float(reply or 0))

    async def _run(self, script: Script, key: str, arguments: Iterable[Argument]) -> Any:
        try:
            return await self._redis.run_script(script, key.encode(), _encode(arguments))
        except RedisErrors as fault:
            raise IdempotencyStoreUnavailable(repr(fault)) from fault


def claim_key(digest: str) -> str:
    """The Redis key of the claim with this digest."""
    return CLAIM_PREFIX + digest


def _encode(arguments: Iterable[Argument]) -> list[bytes]:
    return [each if isinstance(each, bytes) else str(each).encode() for each in arguments]


async def _pack_response(stored_response: StoredResponse) -> bytes:
    encoded = msgspec.msgpack.encode(stored_response)
    return await pack_beside_loop(encoded)


async def _unpack_response(packed: bytes) -> StoredResponse:
    encoded = await unpack_beside_loop(packed)
    return msgspec.msgpack.decode(encoded, type=StoredResponse)
