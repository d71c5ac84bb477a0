"""Idempotency keys: a retry of a request that was answered gets the same response; nothing is run or billed twice.

A request with the header claims its key in Redis, runs, and its record (app.recording) decides what follows: a response is stored for
retries, anything else releases the claim. The order matters when a process is killed in between:

    claim -> run -> confirm -> record in the spool -> response in Redis -> last byte to the caller -> done

    killed                  what is left                      what a retry finds
    before the claim        nothing                           nothing, and runs
    claimed, or running     a claim that is not renewed       its lease expires; no response is recorded; the retry runs
    recorded                the same, and a record            its lease expires; the record is found: the response is replayed from it or,
                                                              where the team's content is not kept, 409 with the inference's id
    response in Redis       everything                        the response, also if the last byte was never sent
    releasing the claim     a claim, and a record of failure  its lease expires; the record holds no response; the retry runs
    resolving a dead claim  a claim with the first            its lease expires; the next retry resolves it
                            request's inference

"No response is recorded" is certain only once everything in the dead owner's spool, as of the time its claim was taken over, is in
Postgres: until then 503. If the response were stored before the record, a kill in between would leave a response that is replayed and
never billed.

An owner may be alive and silent: suspended, or cut off from Redis. A claim is taken over only after a retry has seen the lease expired
for a time in which a live owner would have renewed it, and an owner whose lease may have expired checks that the claim is still its own
before it records a response (confirm). If it is not, its caller gets 409, and the record says failed. If Redis is away just then, the
response is sent and recorded, and retries find that record as if its owner were dead.
"""

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Mapping
from weakref import WeakValueDictionary

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.callers import Caller
from app.gateway.idempotency.claim import Claim, with_error_code
from app.gateway.idempotency.claims import Claims
from app.gateway.idempotency.recorded_outcomes import find_recorded_outcome
from app.gateway.large_body.body_size import run_in_any_thread
from app.process.background_tasks import BackgroundTask
from app.recording.spool.spool_progress import wait_until_stored
from app.settings import Settings
from app.store.postgres.db_errors import RecordsUnavailable
from app.store.redis.idempotent_responses import (
    ClaimRequest,
    ClaimResult,
    IdempotencyStore,
    IdempotencyStoreUnavailable,
    StoredResponse,
    claim_key,
)
from providers.canonical.errors import Conflict, IdempotencyKeyReused, InvalidRequest, RequestError, Unavailable, Unsupported

KEY_HEADER = b"idempotency-key"
BEHAVIOUR_HEADER = b"x-narthex-idempotency"
_NARTHEX_PREFIX = b"x-narthex-"

_MAX_KEY_CHARS = 255
_FIRST_WAIT_S, _MAX_WAIT_S = 0.02, 0.25
_RESOLVE_TIMEOUT_S = 15.0  # longer than the writer's status takes to reach Redis, with Postgres back from a restart
_SPOOL_CHECK_TIMEOUT_S = 5.0


class Idempotency:
    """begin() before a request runs gives a stored response to replay, or a Claim to run under. start() and stop() with the worker."""

    def __init__(self, settings: Settings, database: AsyncEngine) -> None:
        self.draining = False  # whether requests no longer wait here for another request with the same key
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

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        return () if self._claims is None else (self._claims.renewal,)

    def start(self) -> None:
        if self._claims is not None:
            self._claims.start()

    async def stop(self) -> None:
        if self._claims is not None:
            await self._claims.stop()

    async def begin(
        self,
        key: bytes,
        headers: Mapping[bytes, bytes],
        caller: Caller,
        route: str,
        raw: bytes,
        inference_id: str,
        credential_headers: frozenset[bytes] = frozenset(),
    ) -> Claim | StoredResponse:
        """Waits while another request with the same key is in flight.

        `key` is the header's value and `raw` the body. In `credential_headers` callers may send a credential for a host: a response is
        replayed only to the same credential.

        Raises InvalidRequest for an invalid header, IdempotencyKeyReused if the key stands for another request, Conflict if there is a
        response that cannot be replayed, or the first request is in flight and the caller refuses to wait, Unavailable if nothing can be
        guaranteed now, Unsupported if idempotency keys are switched off.
        """
        claims = self._claims
        if claims is None:
            raise Unsupported(
                f"This gateway stores no responses for retries ({self._disabled_reason}): send no Idempotency-Key.", param="Idempotency-Key"
            )
        if not 1 <= len(key) <= _MAX_KEY_CHARS or any(not 0x20 <= byte <= 0x7E for byte in key):
            raise InvalidRequest(f"An Idempotency-Key has 1 to {_MAX_KEY_CHARS} printable ASCII characters.", param="Idempotency-Key")
        refuse_if_running = _refuses_to_wait(headers)
        redis_key = claim_key(hashlib.sha256(b"\0".join((caller.key_id.encode(), route.encode(), key))).hexdigest()[:40])
        digest = await run_in_any_thread(raw, _digest, raw, headers, credential_headers)
        claim = Claim(claims, ClaimRequest(redis_key, secrets.token_hex(12), digest, inference_id, claims.spool))
        try:
            return await self._begin(claim, claims, refuse_if_running)
        except IdempotencyStoreUnavailable:
            claim.start_completion()
            message = "The store of responses (Redis) is unavailable, so a retry could run twice. Try again, or send no Idempotency-Key."
            raise Unavailable(message, retry_after_s=5) from None
        except BaseException:
            claim.start_completion()  # releases the claim if it was acquired
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
                raise _response_not_stored(found.inference_id)
            case "reused":
                message = "This Idempotency-Key stands for a request with another body, other x-narthex headers, or another credential."
                raise with_error_code(IdempotencyKeyReused(message, param="Idempotency-Key"), "idempotency_key_reused", found.inference_id)
            case "running":
                raise with_error_code(
                    Conflict("A request with this Idempotency-Key is in flight."), "idempotency_in_flight", found.inference_id
                )

    async def _acquire_in_order(self, claim: Claim) -> ClaimResult:
        """Tries until the claim is no longer another's, or time is up. Of the requests that wait for the same claim, one at a time tries.

        So a thousand of them cost Redis, and the connections to it, as much as one.
        """
        started_at = time.monotonic()
        # A request with another body is refused at once: it must not queue.
        lock = self._locks.setdefault((claim.claim_request.key, claim.claim_request.digest), asyncio.Lock())
        async with lock:
            if self._redis_away_at > started_at:  # a request before this one waited for the timeout already
                raise IdempotencyStoreUnavailable("It was unavailable a moment ago")
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
        """Finds out what became of a dead owner's inference: gives its response, or the claim if there is none and the request may run."""
        claim_request, spool = claim.claim_request, claim.claim_request.spool
        # The claim keeps the dead owner's inference until that is known, for the next request that may have to take over from us.
        claim_request.inference_id, claim_request.spool = found.inference_id, found.spool
        deadline = time.monotonic() + min(_RESOLVE_TIMEOUT_S, self._total_s)
        while time.monotonic() < deadline and not self.draining:
            is_written = await self._is_fully_written(claims, found)  # checked first: then the look-up below finds everything recorded
            with contextlib.suppress(RecordsUnavailable):
                recorded_response = await find_recorded_outcome(self._database, found.inference_id, self._max_bytes)
                if recorded_response is not None and recorded_response.succeeded:
                    await claims.untrack(claim)
                    try:
                        await claims.run_to_completion(claims.idempotent_responses.finish(claim_request, recorded_response.stored_response))
                    except IdempotencyStoreUnavailable:  # this retry has its response; the next one looks it up again
                        claim.start_completion()
                    if recorded_response.stored_response is None:
                        raise _response_not_stored(found.inference_id)
                    return recorded_response.stored_response
                if recorded_response is not None or is_written:
                    claim_request.inference_id, claim_request.spool = claim.inference_id, spool
                    if await claims.renew(claim):
                        return claim
                    raise claim.lost_claim_error()
            await asyncio.sleep(_MAX_WAIT_S)
        message = (
            f"The gateway that was answering a request with this Idempotency-Key ended (inference {found.inference_id}), "
            "and it is not known yet whether there is a response. Try again."
        )
        raise with_error_code(Unavailable(message, retry_after_s=5), "idempotency_outcome_unknown", found.inference_id)

    async def _is_fully_written(self, claims: Claims, found: ClaimResult) -> bool:
        """Whether everything that the dead owner can have recorded is in Postgres."""
        if found.spool != claims.spool:
            return await claims.run_to_completion(claims.idempotent_responses.stored_until_ms(found.spool)) >= found.taken_over_ms
        try:
            async with asyncio.timeout(_SPOOL_CHECK_TIMEOUT_S):
                return await wait_until_stored(self._spool, self._database, timeout_s=0)
        except Exception:  # asked again in a moment
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


def _digest(raw: bytes, headers: Mapping[bytes, bytes], credential_headers: frozenset[bytes]) -> str:
    """Digest of what the response may depend on: the body, our own headers (episode, tags, what may be dropped), and a credential of the
    caller's own, whose holder alone may see what its host answered.
    """
    digest = hashlib.sha256(raw)
    for name in sorted(headers):
        if (name.startswith(_NARTHEX_PREFIX) and name != BEHAVIOUR_HEADER) or name in credential_headers:
            digest.update(b"\0%b: %b" % (name, headers[name]))  # valid JSON contains no NUL
    return digest.hexdigest()


def _response_not_stored(inference_id: str) -> RequestError:
    message = f"This request was answered (inference {inference_id}), but its response was not stored, so it cannot be replayed."
    return with_error_code(Conflict(message), "idempotency_response_not_stored", inference_id)
