"""Idempotency keys: a retry of a request that was answered is told the same again; nothing is run or billed twice.

A request with the header claims its key in Redis, runs, and when it ends, its record (app.record) tells how: an answer is stored for
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
from app.gateway.claims import Claim, Claims, coded
from app.record.written import spool_written
from app.settings import Settings
from app.store.answers import Answer, Answers, AnswersAway, Claiming, Found, place
from app.store.away import AWAY
from app.store.recorded_answers import RecordsAway, recorded
from providers.errors import AskError, Conflict, KeyReused, Malformed, Unavailable, Unsupported

HEADER = b"idempotency-key"
BEHAVIOUR = b"x-narthex-idempotency"
_OURS = b"x-narthex-"

_LONGEST_KEY = 255
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.25
_FIND_OUT_S = 15.0  # longer than the writer's status and what is told of it take, with Postgres back from a restart
_LOOK_S = 5.0
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
        self._why_off = "NARTHEX_IDEMPOTENCY_KEEP_S is 0" if settings.redis_url else "it has no REDIS_URL"
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._away_at = 0.0  # when Redis was last found away, by time.monotonic
        self._claims: Claims | None = None
        if settings.redis_url and settings.idempotency_keep_s > 0:
            lease_s = max(0.1, settings.idempotency_lease_s)
            answers = Answers(
                settings.redis_url,
                keep_s=settings.idempotency_keep_s,
                lease_s=lease_s,
                # A live owner tries to renew every tenth of its lease, or each second.
                grace_s=lease_s * 0.3,
                patience_s=settings.redis_timeout_s,
            )
            self._claims = Claims(settings, answers, lease_s)

    def start(self) -> None:
        if self._claims is not None:
            self._claims.start()

    async def stop(self) -> None:
        if self._claims is not None:
            await self._claims.stop()

    async def begin(
        self, said: bytes, headers: Mapping[bytes, bytes], caller: Caller, route: str, raw: bytes, inference_id: str
    ) -> Claim | Answer:
        """`said`: the header's value. Waits while another request is answering the same one.

        Raises Malformed for a header that is none, KeyReused if the key stands for another request, Conflict if the answer is there and
        cannot be told again, or is under way and the caller would not wait, Unavailable if nothing can be promised now, Unsupported if
        it is switched off.
        """
        claims = self._claims
        if claims is None:
            raise Unsupported(
                f"This gateway keeps no answers for retries ({self._why_off}): send no Idempotency-Key.", param="Idempotency-Key"
            )
        if not 1 <= len(said) <= _LONGEST_KEY or any(not 0x20 <= byte <= 0x7E for byte in said):
            raise Malformed(f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable ASCII characters.", param="Idempotency-Key")
        refuses = _refuses(headers)
        at = place(hashlib.sha256(b"\0".join((caller.key_id.encode(), route.encode(), said))).hexdigest()[:40])
        digest = _digest(raw, headers) if len(raw) < _LARGE_BYTES else await asyncio.to_thread(_digest, raw, headers)
        claim = Claim(claims, Claiming(at, secrets.token_hex(12), digest, inference_id, claims.spool))
        try:
            return await self._begin(claim, claims, refuses)
        except AnswersAway:
            claim.give_up()
            message = (
                "The store of answers is away: nothing would keep a retry from being run twice. Try again, or without Idempotency-Key."
            )
            raise Unavailable(message, retry_after_s=5) from None
        except BaseException:
            claim.give_up()  # it may be ours; where it is not, this changes nothing
            raise

    async def _begin(self, claim: Claim, claims: Claims, refuses: bool) -> Claim | Answer:
        found = await (claim.ask() if refuses else self._ask_in_turn(claim))
        match found.state:
            case "claimed":
                return claim
            case "answered":
                assert found.answer is not None
                return found.answer
            case "taken":
                return await self._find_out(claim, claims, found)
            case "unkept":
                raise _unkept(found.inference_id)
            case "reused":
                message = "This Idempotency-Key stands for a request with another body, or other x-narthex headers."
                raise coded(KeyReused(message, param="Idempotency-Key"), "idempotency_key_reused", found.inference_id)
            case "running":
                raise coded(Conflict("A request with this Idempotency-Key is being answered."), "idempotency_in_flight", found.inference_id)

    async def _ask_in_turn(self, claim: Claim) -> Found:
        """Asks until the claim is no longer another's, or there was no more time. Of those here who wait for the same, one at a time
        asks, so that a thousand of them cost Redis, and the connections to it, what one costs.
        """
        began = time.monotonic()
        # One with another body has nothing to wait for.
        turn = self._turns.setdefault((claim.claiming.at, claim.claiming.digest), asyncio.Lock())
        async with turn:
            if self._away_at > began:  # who was before us has found out, which takes its time
                raise AnswersAway("It was away a moment ago")
            wait_s = _FIRST_WAIT_S
            while True:
                try:
                    found = await claim.ask()
                except AnswersAway:
                    self._away_at = time.monotonic()
                    raise
                if found.state != "running" or time.monotonic() > began + self._total_s:
                    return found
                if self.draining:
                    raise Unavailable("This gateway is being shut down: try again.", retry_after_s=1)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 1.5, _LONGEST_WAIT_S)

    async def _find_out(self, claim: Claim, claims: Claims, found: Found) -> Claim | Answer:
        """What became of the inference of an owner who is dead: it was answered, or the request is ours to run."""
        claiming, spool = claim.claiming, claim.claiming.spool
        # Theirs until that is known: so would whoever takes over from us find it.
        claiming.inference_id, claiming.spool = found.inference_id, found.spool
        until = time.monotonic() + min(_FIND_OUT_S, self._total_s)
        while time.monotonic() < until and not self.draining:
            is_written = await self._is_written(claims, found)  # before the look, which then finds all that was recorded
            with contextlib.suppress(RecordsAway):
                known = await recorded(self._database, found.inference_id, self._max_bytes)
                if known is not None and known.answered:
                    await claims.let_go(claim)
                    try:
                        await claims.to_its_end(claims.answers.finish(claiming, known.answer))
                    except AnswersAway:  # for the next one to find out; this one can be told
                        claim.give_up()
                    if known.answer is None:
                        raise _unkept(found.inference_id)
                    return known.answer
                if known is not None or is_written:
                    claiming.inference_id, claiming.spool = claim.inference_id, spool
                    if await claims.renew(claim):
                        return claim
                    raise claim.lost()
            await asyncio.sleep(_LONGEST_WAIT_S)
        message = (
            f"The gateway that was answering a request with this Idempotency-Key ended (inference {found.inference_id}), "
            "and it is not known yet whether it was answered. Try again."
        )
        raise coded(Unavailable(message, retry_after_s=5), "idempotency_not_known_yet", found.inference_id)

    async def _is_written(self, claims: Claims, found: Found) -> bool:
        """Whether all that the dead owner can have recorded is in Postgres."""
        if found.spool != claims.spool:
            return await claims.to_its_end(claims.answers.written_ms(found.spool)) >= found.taken_ms
        try:
            async with asyncio.timeout(_LOOK_S):
                return await spool_written(self._spool, self._database, patience_s=0)
        except AWAY:
            return False


def _refuses(headers: Mapping[bytes, bytes]) -> bool:
    match headers.get(BEHAVIOUR, b"wait"):
        case b"wait":
            return False
        case b"refuse":
            return True
        case other:
            told = other.decode("latin-1")
            raise Malformed(f"x-narthex-idempotency may be wait or refuse, not {told:.40}.", param="x-narthex-idempotency")


def _digest(raw: bytes, headers: Mapping[bytes, bytes]) -> str:
    """Of all that the answer may depend on: the body, and what headers of ours (episode, tags, what may be dropped) say beside it."""
    digest = hashlib.sha256(raw)
    for name in sorted(headers):
        if name.startswith(_OURS) and name != BEHAVIOUR:
            digest.update(b"\0%b: %b" % (name, headers[name]))  # no JSON that can be read has a NUL in it
    return digest.hexdigest()


def _unkept(inference_id: str) -> AskError:
    message = f"This request was answered (inference {inference_id}), and the answer is not there to be told again."
    return coded(Conflict(message), "idempotency_answer_not_kept", inference_id)
