"""ShadowQueue: shadows of one process, which wait until their original has ended, and run beside the requests of callers."""

import asyncio
import functools
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from app.gateway.media.fetcher import ClaimBytes
from app.gateway.pipeline.gateway import Gateway
from app.gateway.shadow.choice import DropReason, config_of, find_objection, is_drawn, shadow_name
from app.gateway.shadow.draft import ShadowDraft, ShadowDropped, kept_headers
from app.gateway.shadow.response_copy import MAX_COPY_BYTES, ResponseCopy
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Attempted, Planned
from providers.canonical.errors import Unavailable
from providers.dialect import CallerDialect
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

Run: TypeAlias = Callable[[Gateway, ShadowDraft, ClaimBytes], Awaitable[None]]

log = logging.getLogger(__name__)

_MAX_WAIT_S = 30.0
# Between two tries while other processes have all places.
_RETRY_S = 0.5
_STOP_TIMEOUT_S = 5.0
# What bodies of callers may hold, shadows may hold this part of.
_SHARE_OF_BODIES = 8


class ShadowQueue:
    """Requests that are to be answered again. What waits, and the bytes held, are bounded.

    `run` answers a request again; it raises ShadowDropped if that is not to be. For each shadow, as many run and as many wait in this
    process as may run in all of them: how many do run, the limits decide.
    """

    def __init__(self, gateway: Gateway, run: Run) -> None:
        self.held_bytes = 0
        self._max_bytes = gateway.settings.bodies_max_bytes_worker // _SHARE_OF_BODIES
        self._gateway = gateway
        self._run = run
        self._waiting: dict[str, deque[tuple[float, ShadowDraft]]] = {}
        self._running: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def draw(
        self,
        context: RequestContext,
        dialect: CallerDialect,
        planned: Planned,
        raw: bytes,
        upstream_raw: bytes,
        headers: Mapping[bytes, bytes],
    ) -> None:
        """Decides whether the request is to be answered again, and if so keeps a copy of its response."""
        plan, name = planned.plan, shadow_name(planned.plan)
        config = config_of(plan.snapshot, name)
        if config is None or dialect.name not in CALLER_CHAT_DIALECTS or not is_drawn(config.share, name, context.id):
            return
        objection = find_objection(plan, config, planned.admitted.caller)
        if objection is not None:
            self._drop(name, objection)
            return
        body_bytes = 0 if context.body_claim is None else context.body_claim.size_bytes  # with its history
        response = planned.spool_record = ResponseCopy(planned.spool_record)
        size_bytes = MAX_COPY_BYTES + max(len(raw), body_bytes) + len(upstream_raw)
        kept = kept_headers(headers)
        draft = ShadowDraft(context.id, name, config, dialect, planned, raw, upstream_raw, kept, response, size_bytes)
        context.at_end = functools.partial(self._offer, context, draft)

    def _offer(self, context: RequestContext, draft: ShadowDraft) -> None:
        """The original has ended, whichever way."""
        waiting = self._waiting.setdefault(draft.name, deque())
        reason: DropReason
        if self._is_closed:
            reason = "shutdown"
        elif not isinstance(context.stage, Attempted) or draft.response.outcome not in ("answered", "failed"):
            reason = "unanswered"
        elif self._gateway.load_shedder.is_busy:
            reason = "overloaded"
        elif self.held_bytes + draft.size_bytes > self._max_bytes:
            reason = "size"
        elif len(waiting) >= draft.config.max_concurrent and self._running[draft.name] >= draft.config.max_concurrent:
            reason = "queue"
        else:
            self.held_bytes += draft.size_bytes
            waiting.append((time.monotonic(), draft))
            if self._running[draft.name] < draft.config.max_concurrent:
                self._running[draft.name] += 1
                task = asyncio.create_task(self._work(draft.name), name="shadow")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return
        self._drop(draft.name, reason)

    def _hold(self, draft: ShadowDraft, more_bytes: int) -> None:
        """Counts bytes that a shadow needs besides, until it ends. Raises Unavailable."""
        if self.held_bytes + more_bytes > self._max_bytes:
            raise Unavailable("There is no memory for the media of a shadow.", retry_after_s=1)
        self.held_bytes += more_bytes
        draft.size_bytes += more_bytes

    def cancel(self) -> None:
        """Ends all shadows, as the process does. They are recorded as aborted."""
        self._is_closed = True
        for name, waiting in self._waiting.items():
            for _, draft in waiting:
                self.held_bytes -= draft.size_bytes
                self._drop(name, "shutdown")
            waiting.clear()
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_TIMEOUT_S)

    async def _work(self, name: str) -> None:
        waiting = self._waiting[name]
        try:
            while waiting:
                queued_s, draft = waiting.popleft()
                try:
                    await self._run_in_time(queued_s, draft)
                except ShadowDropped as dropped:
                    self._drop(name, dropped.reason)
                except Exception as error:
                    # Not the error itself: it may hold what a host sent, and hosts repeat keys.
                    log.error("a shadow failed", extra={"shadow": name, "of": draft.id, "error": type(error).__name__})
                    self._drop(name, "error")
                finally:
                    self.held_bytes -= draft.size_bytes
                    del draft
        finally:
            self._running[name] -= 1

    async def _run_in_time(self, queued_s: float, draft: ShadowDraft) -> None:
        """Raises ShadowDropped."""
        while True:
            if self._gateway.load_shedder.is_busy:
                raise ShadowDropped("overloaded")
            if time.monotonic() - queued_s > _MAX_WAIT_S:
                raise ShadowDropped("waited")
            try:
                return await self._run(self._gateway, draft, functools.partial(self._hold, draft))
            except ShadowDropped as dropped:
                if dropped.reason != "concurrency":
                    raise
            await asyncio.sleep(random.uniform(0.5, 1.5) * _RETRY_S)

    def _drop(self, name: str, reason: DropReason) -> None:
        self._gateway.telemetry.count_dropped_shadow(name, reason)
