"""Idempotency keys: a retry of a request that was answered is told the same again; nothing is run or billed twice.

A request with the header claims its key in Redis, runs, and when it ends, its record (app.recording) tells how: an answer is stored for
retries, anything else lets the claim go. In which order is what counts when a process is killed in between:

    claim -> run -> confirm -> record in the spool -> answer in Redis -> last byte to the caller -> over

    killed                  left behind                       a retry finds
    before the claim        nothing                           nothing, and runs
    claimed, or running     a claim that nobody renews        its lease expires; nothing is recorded as answered; the retry runs
    recorded                the same, and a record            its lease expires; the record is there: the answer is told from it, or, where
                                                              the team's content is not kept, 409 with the inference's id
    answer in Redis         everything                        the answer, also if the last byte never left
    while a claim is let go a claim, and a record of failure  its lease expires; what is recorded is no answer; the retry runs
    while finding out       the claim taken over, still with  its lease expires; the next one finds out
                            the inference of the first

"Nothing is recorded" is only said once all that was in the dead one's spool when it was given up is in Postgres: until then 503. Were the
answer stored before the record, one killed in between would leave an answer that is told and never billed.

An owner may be alive and silent: stopped, or cut off from Redis. A claim is given up only after a retry has seen the lease expired for a
while in which a live owner would have renewed it, and an owner whose lease may have lapsed asks whether the claim is still its own before
it records an answer (confirm). If not, its caller gets 409, and the record says failed. Redis away just then: the answer is given and
recorded, and retries find that record as if its owner were dead.
"""

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Mapping
from weakref import WeakValueDictionary

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller
from app.gateway.idempotency.claims import Claim, Claims, with_error_code
from app.recording.spool_progress import wait_until_stored
from app.settings import Settings
from app.store.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.idempotent_responses import (
    ClaimRequest,
    ClaimResult,
    IdempotencyStore,
    IdempotencyStoreUnavailable,
    StoredResponse,
    claim_key,
)
from app.store.recorded_outcomes import RecordsUnavailable, find_recorded_outcome
from providers.canonical.errors import Conflict, IdempotencyKeyReused, InvalidRequest, RequestError, Unavailable, Unsupported

KEY_HEADER = b"idempotency-key"
BEHAVIOUR_HEADER = b"x-narthex-idempotency"
_NARTHEX_PREFIX = b"x-narthex-"

_MAX_KEY_CHARS = 255
_FIRST_WAIT_S, _MAX_WAIT_S = 0.02, 0.25
_RESOLVE_TIMEOUT_S = 15.0  # longer than the writer's status and what is told of it take, with Postgres back from a restart
_SPOOL_CHECK_TIMEOUT_S = 5.0
_LARGE_BYTES = 256 * 1024  # hashed on a thread


class Idempotency:
    """begin() before a request is run: what it gives is the answer to tell again, or a Claim to run under.

    start() and stop() with the worker. `draining`: nobody waits here any longer for what another request does.
    """

    def __init__(self, settings: Settings, database: AsyncEngine) -> None:
        self.draining = False
        self._database = database
        self._spool = settings.home / "spool"
        self._total_s = settings.total_timeout_s
        self._max_bytes = settings.idempotency_max_bytes
        self._disabled_reason = "NARTHEX_IDEMPOTENCY_KEEP_S is 0" if settings.redis_url else "it has no REDIS_URL"
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._redis_away_at = 0.0  # when Redis was last found away, by time.monotonic
        self._claims: Claims | None = None
        if settings.redis_url and settings.idempotency_keep_s > 0:
            lease_s = max(0.1, settings.idempotency_lease_s)
            idempotent_responses = IdempotencyStore(
                settings.redis_url,
                keep_s=settings.idempotency_keep_s,
                lease_s=lease_s,
                # A live owner tries to renew every tenth of its lease, or each second.
                grace_s=lease_s * 0.3,
                timeout_s=settings.redis_timeout_s,
            )
            self._claims = Claims(settings, idempotent_responses, lease_s)

    def start(self) -> None:
        if self._claims is not None:
            self._claims.start()

    async def stop(self) -> None:
        if self._claims is not None:
            await self._claims.stop()

    async def begin(
        self, key: bytes, headers: Mapping[bytes, bytes], caller: Caller, route: str, raw: bytes, inference_id: str
    ) -> Claim | StoredResponse:
        """`said`: the header's value. Waits while another request is answering the same one.

        Raises Malformed for a header that is none, KeyReused if the key stands for another request, Conflict if the answer is there and
        cannot be told again, or is under way and the caller would not wait, Unavailable if nothing can be promised now, Unsupported if
        it is switched off.
        """
        claims = self._claims
        if claims is None:
            raise Unsupported(
                f"This gateway keeps no answers for retries ({self._disabled_reason}): send no Idempotency-Key.", param="Idempotency-Key"
            )
        if not 1 <= len(key) <= _MAX_KEY_CHARS or any(not 0x20 <= byte <= 0x7E for byte in key):
            raise InvalidRequest(f"An Idempotency-Key has 1 to {_MAX_KEY_CHARS} printable ASCII characters.", param="Idempotency-Key")
        refuse_if_running = _refuses_to_wait(headers)
        redis_key = claim_key(hashlib.sha256(b"\0".join((caller.key_id.encode(), route.encode(), key))).hexdigest()[:40])
        digest = _digest(raw, headers) if len(raw) < _LARGE_BYTES else await asyncio.to_thread(_digest, raw, headers)
        claim = Claim(claims, ClaimRequest(redis_key, secrets.token_hex(12), digest, inference_id, claims.spool))
        try:
            return await self._begin(claim, claims, refuse_if_running)
        except IdempotencyStoreUnavailable:
            claim.start_completion()
            message = (
                "The store of answers is away: nothing would keep a retry from being run twice. Try again, or without Idempotency-Key."
            )
            raise Unavailable(message, retry_after_s=5) from None
        except BaseException:
            claim.start_completion()  # it may be ours; where it is not, this changes nothing
            raise

    async def _begin(self, claim: Claim, claims: Claims, refuse_if_running: bool) -> Claim | StoredResponse:
        found = await (claim.acquire() if refuse_if_running else self._acquire_in_order(claim))
        match found.state:
            case "claimed":
                return claim
            case "answered":
                assert found.stored_response is not None
                return found.stored_response
            case "taken":
                return await self._resolve_dead_owner(claim, claims, found)
            case "unkept":
                raise _response_not_kept(found.inference_id)
            case "reused":
                message = "This Idempotency-Key stands for a request with another body, or other x-narthex headers."
                raise with_error_code(IdempotencyKeyReused(message, param="Idempotency-Key"), "idempotency_key_reused", found.inference_id)
            case "running":
                raise with_error_code(
                    Conflict("A request with this Idempotency-Key is being answered."), "idempotency_in_flight", found.inference_id
                )

    async def _acquire_in_order(self, claim: Claim) -> ClaimResult:
        """Asks until the claim is no longer another's, or there was no more time. Of those here who wait for the same, one at a time
        asks, so that a thousand of them cost Redis, and the connections to it, what one costs.
        """
        started_at = time.monotonic()
        # One with another body has nothing to wait for.
        lock = self._locks.setdefault((claim.claim_request.key, claim.claim_request.digest), asyncio.Lock())
        async with lock:
            if self._redis_away_at > started_at:  # who was before us has found out, which takes its time
                raise IdempotencyStoreUnavailable("It was away a moment ago")
            wait_s = _FIRST_WAIT_S
            while True:
                try:
                    found = await claim.acquire()
                except IdempotencyStoreUnavailable:
                    self._redis_away_at = time.monotonic()
                    raise
                if found.state != "running" or time.monotonic() > started_at + self._total_s:
                    return found
                if self.draining:
                    raise Unavailable("This gateway is being shut down: try again.", retry_after_s=1)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 1.5, _MAX_WAIT_S)

    async def _resolve_dead_owner(self, claim: Claim, claims: Claims, found: ClaimResult) -> Claim | StoredResponse:
        """What became of the inference of an owner who is dead: it was answered, or the request is ours to run."""
        claim_request, spool = claim.claim_request, claim.claim_request.spool
        # Theirs until that is known: so would whoever takes over from us find it.
        claim_request.inference_id, claim_request.spool = found.inference_id, found.spool
        deadline = time.monotonic() + min(_RESOLVE_TIMEOUT_S, self._total_s)
        while time.monotonic() < deadline and not self.draining:
            is_written = await self._is_fully_written(claims, found)  # before the look, which then finds all that was recorded
            with contextlib.suppress(RecordsUnavailable):
                recorded_response = await find_recorded_outcome(self._database, found.inference_id, self._max_bytes)
                if recorded_response is not None and recorded_response.succeeded:
                    await claims.release(claim)
                    try:
                        await claims.run_to_completion(claims.idempotent_responses.finish(claim_request, recorded_response.stored_response))
                    except IdempotencyStoreUnavailable:  # for the next one to find out; this one can be told
                        claim.start_completion()
                    if recorded_response.stored_response is None:
                        raise _response_not_kept(found.inference_id)
                    return recorded_response.stored_response
                if recorded_response is not None or is_written:
                    claim_request.inference_id, claim_request.spool = claim.inference_id, spool
                    if await claims.renew(claim):
                        return claim
                    raise claim.lost_claim_error()
            await asyncio.sleep(_MAX_WAIT_S)
        message = (
            f"The gateway that was answering a request with this Idempotency-Key ended (inference {found.inference_id}), "
            "and it is not known yet whether it was answered. Try again."
        )
        raise with_error_code(Unavailable(message, retry_after_s=5), "idempotency_not_known_yet", found.inference_id)

    async def _is_fully_written(self, claims: Claims, found: ClaimResult) -> bool:
        """Whether all that the dead owner can have recorded is in Postgres."""
        if found.spool != claims.spool:
            return await claims.run_to_completion(claims.idempotent_responses.stored_until_ms(found.spool)) >= found.taken_over_ms
        try:
            async with asyncio.timeout(_SPOOL_CHECK_TIMEOUT_S):
                return await wait_until_stored(self._spool, self._database, timeout_s=0)
        except DB_UNAVAILABLE_ERRORS:
            return False


def _refuses_to_wait(headers: Mapping[bytes, bytes]) -> bool:
    match headers.get(BEHAVIOUR_HEADER, b"wait"):
        case b"wait":
            return False
        case b"refuse":
            return True
        case other:
            value = other.decode("latin-1")
            raise InvalidRequest(f"x-narthex-idempotency may be wait or refuse, not {value:.40}.", param="x-narthex-idempotency")


def _digest(raw: bytes, headers: Mapping[bytes, bytes]) -> str:
    """Of all that the answer may depend on: the body, and what headers of ours (episode, tags, what may be dropped) say beside it."""
    digest = hashlib.sha256(raw)
    for name in sorted(headers):
        if name.startswith(_NARTHEX_PREFIX) and name != BEHAVIOUR_HEADER:
            digest.update(b"\0%b: %b" % (name, headers[name]))  # no JSON that can be read has a NUL in it
    return digest.hexdigest()


def _response_not_kept(inference_id: str) -> RequestError:
    message = f"This request was answered (inference {inference_id}), and the answer is not there to be told again."
    return with_error_code(Conflict(message), "idempotency_answer_not_kept", inference_id)
