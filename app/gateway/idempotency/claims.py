"""Claims: the claims that one worker holds, renewed while their requests are in flight."""

import asyncio
import logging
import os
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from app.process.background_tasks import BackgroundTask
from app.recording.spool.writer_status import read_status
from app.settings import Settings
from app.store.redis.idempotent_responses import ClaimRequest, IdempotencyStore, IdempotencyStoreUnavailable

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 2.0

T = TypeVar("T")


class HeldClaim(Protocol):
    """A claim that is renewed, such as app.gateway.idempotency.claim.Claim."""

    claim_request: ClaimRequest
    owned_until: float  # by the monotonic clock


class Claims:
    """track() a claim when it is acquired, untrack() it before it is completed; renewed in between, from start() to stop()."""

    def __init__(self, settings: Settings, idempotent_responses: IdempotencyStore, lease_s: float) -> None:
        self.idempotent_responses = idempotent_responses
        self.max_bytes = settings.idempotency_max_bytes
        self.spool = f"{os.uname().nodename}:{settings.home.resolve()}"
        self._home = settings.home
        self._lease_s = lease_s
        self._active: set[HeldClaim] = set()
        self._renew_lock = asyncio.Lock()
        self._is_redis_away = self._is_stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.renewal = BackgroundTask("idempotency", self._renew_periodically)

    def start(self) -> None:
        self.renewal.start()

    async def stop(self) -> None:
        """Waits up to 2 s for commands on their way to Redis. A claim that is left expires as that of a dead owner does."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_TIMEOUT_S)
            for task in late:
                task.cancel()
        self._is_stopping = True  # redis-py 8.1 may swallow a cancellation
        await self.renewal.stop()
        await self.idempotent_responses.close()

    def track(self, claim: HeldClaim, requested_at: float) -> None:
        """Renews the claim from now on. It was requested at `requested_at`, by the monotonic clock; its lease began no earlier."""
        claim.owned_until = requested_at + self._lease_s
        self._active.add(claim)

    async def untrack(self, claim: HeldClaim) -> None:
        """Renews the claim no longer. Waits for a renewal in progress, which would bring back a claim that is deleted meanwhile."""
        self._active.discard(claim)
        async with self._renew_lock:
            pass

    async def renew(self, claim: HeldClaim) -> bool:
        """Renews one claim now. False: it is another's by now. Raises IdempotencyStoreUnavailable."""
        return await self.run_to_completion(self._renew(claim))

    async def _renew(self, claim: HeldClaim) -> bool:
        async with self._renew_lock:  # a renewal in progress would set `owned_until` by an older reply
            started_at = time.monotonic()
            (is_owned,) = await self.idempotent_responses.renew([claim.claim_request])
        if is_owned:
            claim.owned_until = started_at + self._lease_s
        return is_owned

    async def run_to_completion(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits a command to Redis for a request. If the caller disconnects, the waiting ends and the command does not.

        redis-py 8.1 may swallow a cancellation, and what Redis was about to grant could not be given back.
        """
        return await asyncio.shield(self.run_in_background(work))

    def run_in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs to its end, also if nothing awaits it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _renew_periodically(self) -> None:
        """Renews claims, and reports how far this machine's spool is written: retries of a dead owner's requests wait for that."""
        while not self._is_stopping:
            try:
                async with self._renew_lock:
                    await self._renew_all()
                status = read_status(self._home)
                if status is not None:
                    await self.idempotent_responses.mark_stored(self.spool, max(0.0, time.time() - status.at + status.oldest_s))
                if self._is_redis_away:
                    log.info("Redis is available again")
                self._is_redis_away = False
            except (IdempotencyStoreUnavailable, OSError) as fault:
                if not self._is_redis_away:
                    log.warning("Redis is unavailable: requests with an Idempotency-Key are refused", extra={"fault": str(fault)})
                self._is_redis_away = True
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
                self._active.discard(claim)  # Claim.confirm() finds out
