"""Claims: the right to answer a request with an Idempotency-Key, renewed while it is under way, settled by what its record says."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from app.domain import Exchange
from app.recording.spool_record import SpoolRecord
from app.recording.writer_status import read_status
from app.settings import Settings
from app.store.idempotent_responses import ClaimRequest, ClaimResult, IdempotencyStore, IdempotencyStoreUnavailable, StoredResponse
from providers.canonical.errors import Conflict, RequestError

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 2.0

T = TypeVar("T")


class Claims:
    """Those of one worker that are under way. Renewed from start() to stop()."""

    def __init__(self, settings: Settings, idempotent_responses: IdempotencyStore, lease_s: float) -> None:
        self.idempotent_responses = idempotent_responses
        self.max_bytes = settings.idempotency_max_bytes
        self.spool = f"{os.uname().nodename}:{settings.home.resolve()}"
        self._home = settings.home
        self._lease_s = lease_s
        self._active: set[Claim] = set()
        self._renew_lock = asyncio.Lock()
        self._is_redis_away = self._is_stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._renew_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._renew_task = asyncio.create_task(self._renew_periodically())

    async def stop(self) -> None:
        """Says to Redis what is left to be said, within bounds; a claim that stays is one of a dead owner."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_TIMEOUT_S)
            for task in late:
                task.cancel()
        if self._renew_task is not None:
            self._is_stopping = True  # redis-py 8.1 may swallow a cancellation
            self._renew_task.cancel()
            await asyncio.wait([self._renew_task])
        await self.idempotent_responses.close()

    def track(self, claim: "Claim", requested_at: float) -> None:
        """It is ours since it was asked for (by time.monotonic), and from now on renewed."""
        claim.owned_until = requested_at + self._lease_s
        self._active.add(claim)

    async def renew(self, claim: "Claim") -> bool:
        """Whether it is ours still. Raises AnswersAway."""
        return await self.run_to_completion(self._renew(claim))

    async def _renew(self, claim: "Claim") -> bool:
        async with self._renew_lock:  # a renewal that is on its way may say of it what is no longer so
            started_at = time.monotonic()
            (is_owned,) = await self.idempotent_responses.renew([claim.claim_request])
        if is_owned:
            claim.owned_until = started_at + self._lease_s
        return is_owned

    async def release(self, claim: "Claim") -> None:
        """No longer renewed, also not by a renewal that is on its way: it would bring back what is deleted."""
        self._active.discard(claim)
        async with self._renew_lock:
            pass

    async def run_to_completion(self, work: Coroutine[Any, Any, T]) -> T:
        """What is asked of Redis on the road. A caller who leaves ends the waiting, not the work: redis-py 8.1 may swallow a cancellation,
        and what Redis was about to grant could not be given back.
        """
        return await asyncio.shield(self.run_in_background(work))

    def run_in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Does it, whatever becomes of whoever wants it done."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _renew_periodically(self) -> None:
        """Renews, and tells how far this machine's spool is written, for those who wait for what a dead owner may have recorded."""
        while not self._is_stopping:
            try:
                async with self._renew_lock:
                    await self._renew_all()
                status = read_status(self._home)
                if status is not None:
                    await self.idempotent_responses.mark_stored(self.spool, max(0.0, time.time() - status.at + status.oldest_s))
                if self._is_redis_away:
                    log.info("Redis answers again")
                self._is_redis_away = False
            except (IdempotencyStoreUnavailable, OSError) as fault:
                if not self._is_redis_away:
                    log.warning("Redis is away: requests with an Idempotency-Key are refused", extra={"fault": str(fault)})
                self._is_redis_away = True
            except Exception:
                log.exception("claims could not be renewed")
            await asyncio.sleep(min(1.0, self._lease_s / 10))

    async def _renew_all(self) -> None:
        started_at = time.monotonic()
        due = [claim for claim in self._active if claim.owned_until - started_at < self._lease_s * 2 / 3]
        if not due:
            return
        for claim, is_owned in zip(due, await self.idempotent_responses.renew([claim.claim_request for claim in due]), strict=True):
            if is_owned:
                claim.owned_until = started_at + self._lease_s
            else:
                self._active.discard(claim)  # its confirm() finds out


class Claim:
    """The right to answer one request. over() its entry; confirm() before its record is kept; settle() before its last byte, and at last.

    What becomes of it is what the record says: answered, and the answer is stored; anything else, or no record, and the next may have it.
    """

    def __init__(self, claims: Claims, claim_request: ClaimRequest) -> None:
        self.claim_request = claim_request
        self.inference_id = claim_request.inference_id
        self.owned_until = 0.0  # by time.monotonic: before that, nobody can have taken it
        self._claims = claims
        self._acquiring: asyncio.Task[ClaimResult] | None = None
        self._captured_record: CapturingRecord | None = None
        self._completing: asyncio.Task[None] | None = None

    async def acquire(self) -> ClaimResult:
        """Claims it, if it can be had. Raises AnswersAway."""
        started_at = time.monotonic()
        self._acquiring = self._claims.run_in_background(self._claims.idempotent_responses.claim(self.claim_request))
        found = await asyncio.shield(self._acquiring)
        if found.state in ("claimed", "taken"):
            self._claims.track(self, started_at)
        return found

    def capture(self, spool_record: SpoolRecord) -> "CapturingRecord":
        """The entry of the exchange: this claim hears what it is told from now on."""
        self._captured_record = CapturingRecord(spool_record, self._claims.max_bytes)
        return self._captured_record

    async def confirm(self) -> None:
        """Raises Conflict if another has taken the claim, as we were silent for too long: the answer must not count."""
        if time.monotonic() < self.owned_until:
            return
        with contextlib.suppress(IdempotencyStoreUnavailable):
            if not await self._claims.renew(self):
                raise self.lost_claim_error()

    async def complete(self) -> None:
        """Stores the answer, or lets the claim go; once, and to its end also if the caller leaves meanwhile. Raises nothing."""
        await asyncio.shield(self.start_completion())

    def start_completion(self) -> asyncio.Task[None]:
        """As settle(), for who has no time to wait."""
        # A task begins when this turn of the loop is over: what was recorded in it is in the spool by then (providers.transport.write_batcher).
        if self._completing is None:
            self._completing = self._claims.run_in_background(self._complete())
        return self._completing

    def lost_claim_error(self) -> RequestError:
        message = "This request was given up and left to its retry: the gateway that answers it had lost touch with its store of claims."
        return with_error_code(Conflict(message), "idempotency_taken_over", self.inference_id)

    async def _complete(self) -> None:
        recorded_exchange = self._captured_record.recorded_exchange if self._captured_record is not None else None
        try:
            if self._acquiring is not None:
                await asyncio.wait([self._acquiring])
            await self._claims.release(self)
            if self._captured_record is None or recorded_exchange is None or recorded_exchange.outcome != "answered":
                await self._claims.idempotent_responses.release(self.claim_request, self.inference_id)
            else:
                await self._claims.idempotent_responses.finish(self.claim_request, self._captured_record.stored_response(recorded_exchange))
        except IdempotencyStoreUnavailable as fault:
            log.info("a claim is left as if its owner were dead", extra={"inference": self.inference_id, "fault": str(fault)})
        except Exception:
            log.exception("a claim is left as if its owner were dead", extra={"inference": self.inference_id})


class CapturingRecord:
    """An entry of the spool, with an ear: what goes to the caller is held, up to a size, and so is how it ended."""

    def __init__(self, spool_record: SpoolRecord, max_bytes: int) -> None:
        self.closed = spool_record.closed
        self.recorded_exchange: Exchange | None = None
        self._spool_record = spool_record
        self._bytes_left = max_bytes
        self._blocks: list[bytes] = []

    def append_response(self, data: bytes) -> None:
        self._spool_record.append_response(data)
        self._bytes_left -= len(data)
        if self._bytes_left >= 0:
            self._blocks.append(data)
        else:
            self._blocks.clear()

    def close(self, exchange: Exchange) -> None:
        self._spool_record.close(exchange)
        self.closed = True
        self.recorded_exchange = self.recorded_exchange or exchange

    def stored_response(self, exchange: Exchange) -> StoredResponse | None:
        """None: it was too large."""
        if self._bytes_left < 0:
            return None
        return StoredResponse(
            inference_id=exchange.id,
            episode_id=exchange.episode_id,
            streamed=exchange.streamed,
            body=b"".join(self._blocks),
            served_provider=exchange.served_provider,
            served_model=exchange.served_model,
            dropped=exchange.dropped,
            status=exchange.status,
            guided=exchange.guided,
        )


def with_error_code(error: RequestError, code: str, inference_id: str) -> RequestError:
    """The error with what a program may go by."""
    error.code = code
    error.details = {"inference_id": inference_id}
    return error
