"""Hedging: a second attempt for a request that waits unusually long, within a budget; whichever answers first serves, the other is stopped.

Source: Dean and Barroso, "The Tail at Scale" (https://doi.org/10.1145/2408776.2408794, read 2026-11).
"""

import asyncio
import bisect
import collections
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.domain.exchange import Attempt
from app.domain.routing import HedgeConfig, Target
from app.gateway.attempts.endpoint_attempts import AttemptStage
from app.gateway.attempts.target_queues import Place
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.state.stages import Attempted, Stage
from app.gateway.upstream.outbound_stream import OutboundStream
from app.gateway.upstream.timeouts import AttemptTimeouts
from app.otel.trace_context import TraceContext
from app.process.background_tasks import finish_despite_cancellation
from providers.canonical.errors import ConstraintViolation, UpstreamError
from providers.dialect import OutboundResponse

# What the record says of the attempt that was stopped because the other one answered.
SUPERSEDED = "Superseded"
# With fewer, a quantile says nothing.
_MIN_SAMPLES = 20
_MAX_SAMPLES = 500
# What a quiet time may save up of the budget.
_MAX_CREDIT = 10.0
_MAX_KEYS = 10_000

Response: TypeAlias = OutboundResponse | OutboundStream


class _Latencies:
    """The newest of a model's times until there is something for the caller, in seconds, and what its budget has left."""

    def __init__(self) -> None:
        self.credit = 0.0
        self._newest: collections.deque[float] = collections.deque(maxlen=_MAX_SAMPLES)
        self._sorted: list[float] = []

    def add(self, seconds: float) -> None:
        if len(self._newest) == _MAX_SAMPLES:
            del self._sorted[bisect.bisect_left(self._sorted, self._newest[0])]
        self._newest.append(seconds)
        bisect.insort(self._sorted, seconds)

    def quantile(self, quantile: float) -> float | None:
        """Returns that quantile of the times, or None if too few are known."""
        return self._sorted[int(quantile * len(self._sorted))] if len(self._sorted) >= _MIN_SAMPLES else None


class HedgeTimer:
    """Decides when to hedge, by the times of each model and kind of response in this process."""

    def __init__(self) -> None:
        self._latencies: dict[tuple[str, bool], _Latencies] = {}

    def begin(self, model: str, hedge: HedgeConfig, *, streamed: bool) -> float | None:
        """Notes that a request begins.

        Returns after how many seconds to hedge it, or None if that is not known yet.
        """
        latencies = self._of(model, streamed)
        latencies.credit = min(_MAX_CREDIT, latencies.credit + hedge.budget)
        return latencies.quantile(hedge.quantile)

    def spend(self, model: str, *, streamed: bool) -> bool:
        """Whether the budget allows one more attempt, which is then taken from it."""
        latencies = self._of(model, streamed)
        if latencies.credit < 1:
            return False
        latencies.credit -= 1
        return True

    def record(self, model: str, attempt: Attempt, *, streamed: bool) -> None:
        """Records the time of an attempt that answered."""
        self._of(model, streamed).add(attempt.duration_us / 1e6)

    def _of(self, model: str, streamed: bool) -> _Latencies:
        latencies = self._latencies.get((model, streamed))
        if latencies is None:
            if len(self._latencies) >= _MAX_KEYS:  # of configurations that were in force long ago
                self._latencies.clear()
            latencies = self._latencies[model, streamed] = _Latencies()
        return latencies


class HedgedAttempt(Struct):
    """One of the two attempts: what it sends, and where."""

    endpoint: Endpoint
    target: Target
    translated: TranslatedRequest
    source: SourceRequest
    left_out: Sequence[str]  # paths of what the request does not have
    timeouts: AttemptTimeouts
    prompt_tokens: int
    place: Place | None = None  # at a target that has few

    def release_place(self) -> None:
        """Releases the place, if it has one. A second call does nothing."""
        if self.place is not None:
            self.place.release()
            self.place = None


Send = Callable[[HedgedAttempt, Attempted, AttemptStage], Awaitable[Response]]


class _Branch:
    """One of two attempts that run at once: an AttemptStage of its own, and the task that sends it."""

    def __init__(self, attempt: HedgedAttempt, attempted: Attempted, stage: AttemptStage, send: Send) -> None:
        self.attempt = attempt
        self.stage: Stage = attempted.planned
        self._outer = stage
        self.attempted = Attempted(attempted.planned, attempted.progress.begin_anew(), candidates=attempted.candidates)
        self.task: asyncio.Task[Response] = asyncio.ensure_future(send(attempt, self.attempted, self))  # type: ignore[arg-type]

    @property
    def trace(self) -> TraceContext | None:
        return self._outer.trace

    @property
    def disconnected(self) -> bool:
        return self._outer.disconnected

    @property
    def has_answered(self) -> bool:
        return not self.task.cancelled() and self.task.exception() is None

    @property
    def is_decisive(self) -> bool:
        """Whether it has answered, or failed in a way in which another attempt would fail as well."""
        error = self.task.exception()
        return not isinstance(error, UpstreamError) or not error.retry_elsewhere or isinstance(error, ConstraintViolation)


async def send_hedged(
    first: HedgedAttempt,
    attempted: Attempted,
    stage: AttemptStage,
    send: Send,
    delay_s: float,
    find_second: Callable[[], Awaitable[HedgedAttempt | None]],
    record_failure: Callable[[HedgedAttempt, UpstreamError], None],
) -> tuple[Response, HedgedAttempt]:
    """The response that comes first, and the attempt that it came from. Raises what the first attempt does, unless the second one answers.

    `find_second` gives None if there is no second attempt, or no budget for it. `record_failure` is for the second.
    """
    branches = [_Branch(first, attempted, stage, send)]
    decided: _Branch = branches[0]
    stage.stage = attempted
    try:
        await asyncio.wait([branches[0].task], timeout=delay_s)
        if not branches[0].task.done():
            second = await find_second()
            if second is not None:
                branches.append(_Branch(second, attempted, stage, send))
        decided = await _first_decided(branches, record_failure)
    finally:
        await _end(branches, decided, attempted)
    response = decided.task.result()
    return response, decided.attempt


async def _first_decided(branches: Sequence[_Branch], record_failure: Callable[[HedgedAttempt, UpstreamError], None]) -> _Branch:
    """The branch whose response or error counts: the first one's error, where both have failed."""
    running = list(branches)
    while running:
        await asyncio.wait([branch.task for branch in running], return_when=asyncio.FIRST_COMPLETED)
        for branch in [each for each in running if each.task.done()]:
            if branch.is_decisive:
                return branch
            error = branch.task.exception()
            if branch is not branches[0] and isinstance(error, UpstreamError):
                record_failure(branch.attempt, error)
            running.remove(branch)
    return branches[0]


async def _end(branches: Sequence[_Branch], decided: _Branch, attempted: Attempted) -> None:
    """Stops what still runs, and joins what is to be recorded and charged of all branches; the decided one's is that of the request."""
    losers = [branch for branch in branches if branch is not decided]
    for branch in branches:
        branch.task.cancel()  # does nothing to those that are done
    cancelled: asyncio.CancelledError | None = None
    while not all(branch.task.done() for branch in branches):
        try:
            await asyncio.wait([branch.task for branch in branches])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    for branch in losers:
        _discard(branch, attempted)
    if not decided.has_answered:
        decided.attempt.release_place()
    own = decided.attempted
    attempted.progress, attempted.call, attempted.served = own.progress, own.call, own.served
    for branch in (*losers, decided):  # the newest attempt is the one that counts
        attempted.attempts += branch.attempted.attempts
        attempted.discarded += branch.attempted.discarded
    for branch in losers:
        if branch.attempted.call is not None:
            await finish_despite_cancellation(branch.attempted.call.release())
    if cancelled is not None:
        raise cancelled


def _discard(branch: _Branch, attempted: Attempted) -> None:
    """Nobody gets the response to this attempt, which is charged as far as it came."""
    if not branch.task.cancelled():
        branch.task.exception()  # otherwise the event loop reports that nobody has read it
    own, call = branch.attempted, branch.attempted.call
    branch.attempt.release_place()
    if call is not None and own.served is not None:
        planned = attempted.planned
        charge = call.charge_parts(planned.reserved_output)
        if charge is None:
            reserved_output = planned.reserved_output if call.may_continue else None
            charge = own.progress.charge(planned.admitted.request.input_tokens, reserved_output)
        superseded = replace(own.served, error=SUPERSEDED)
        own.attempts[-1] = superseded
        own.served = None
        own.discard(superseded, charge)
