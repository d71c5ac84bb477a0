"""Claim: the right to respond to one request with an Idempotency-Key."""

import asyncio
import contextlib
import logging
import time

from app.gateway.idempotency.capturing_record import CapturingRecord
from app.gateway.idempotency.claims import Claims
from app.recording.spool.spool_record import SpoolRecord
from app.store.redis.idempotent_responses import ClaimRequest, ClaimResult, IdempotencyStoreUnavailable
from providers.canonical.errors import Conflict, RequestError

log = logging.getLogger(__name__)


class Claim:
    """acquire() it; capture() the exchange's record; confirm() before the record is written; complete() before the last byte.

    The record decides what becomes of it: if the request was answered, the response is stored for retries; if not, or if there is no
    record, the claim is released, and a retry may run the request.
    """

    def __init__(self, claims: Claims, claim_request: ClaimRequest) -> None:
        self.claim_request = claim_request
        self.inference_id = claim_request.inference_id
        self.owned_until = 0.0  # by the monotonic clock; before that, no other gateway can have taken it
        self._claims = claims
        self._acquiring: asyncio.Task[ClaimResult] | None = None
        self._captured_record: CapturingRecord | None = None
        self._completing: asyncio.Task[None] | None = None

    async def acquire(self) -> ClaimResult:
        """Takes the claim if it is free. Raises IdempotencyStoreUnavailable."""
        started_at = time.monotonic()
        self._acquiring = self._claims.run_in_background(self._claims.idempotent_responses.claim(self.claim_request))
        found = await asyncio.shield(self._acquiring)
        if found.state in ("claimed", "taken"):
            self._claims.track(self, started_at)
        return found

    def capture(self, spool_record: SpoolRecord) -> CapturingRecord:
        """The exchange's record, from which this claim learns the response and the outcome."""
        self._captured_record = CapturingRecord(spool_record, self._claims.max_bytes)
        return self._captured_record

    async def confirm(self) -> None:
        """Raises Conflict if a retry took the claim because it was not renewed in time: this response must not count."""
        if time.monotonic() < self.owned_until:
            return
        with contextlib.suppress(IdempotencyStoreUnavailable):
            if not await self._claims.renew(self):
                raise self.lost_claim_error()

    async def complete(self) -> None:
        """Stores the response, or releases the claim. Once, and to its end even if the caller disconnects. Raises nothing."""
        await asyncio.shield(self.start_completion())

    def start_completion(self) -> asyncio.Task[None]:
        """Starts what complete() does, and does not wait for it."""
        # A task starts after this turn of the loop; by then, what the turn recorded is in the spool (providers.transport.write_batcher).
        if self._completing is None:
            self._completing = self._claims.run_in_background(self._complete())
        return self._completing

    def lost_claim_error(self) -> RequestError:
        message = "This request was left to its retry: the gateway that was processing it lost contact with its store of claims."
        return with_error_code(Conflict(message), "idempotency_taken_over", self.inference_id)

    async def _complete(self) -> None:
        recorded_exchange = self._captured_record.recorded_exchange if self._captured_record is not None else None
        try:
            if self._acquiring is not None:
                await asyncio.wait([self._acquiring])
            await self._claims.untrack(self)
            if self._captured_record is None or recorded_exchange is None or recorded_exchange.outcome != "answered":
                await self._claims.idempotent_responses.release(self.claim_request, self.inference_id)
            else:
                await self._claims.idempotent_responses.finish(self.claim_request, self._captured_record.stored_response(recorded_exchange))
        except IdempotencyStoreUnavailable as fault:
            log.info("a claim is left to expire", extra={"inference": self.inference_id, "fault": str(fault)})
        except Exception:
            log.exception("a claim is left to expire", extra={"inference": self.inference_id})


def with_error_code(error: RequestError, code: str, inference_id: str) -> RequestError:
    """The error, with a code and the inference's id for programs."""
    error.code = code
    error.details = {"inference_id": inference_id}
    return error
