"""The state of one request while targets are tried: how it goes with all of them, and with each."""

from collections.abc import Sequence

from app.domain.routing import Target
from app.gateway.attempts.attempt_failures import Failures
from app.gateway.attempts.reasoning_state import ProviderSources
from app.gateway.attempts.target_queues import Place
from app.gateway.request_translation.recipient import TargetTerms
from app.gateway.request_translation.refusal_reader import RefusalReader
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Attempted
from app.gateway.upstream.timeouts import AttemptTimeouts
from providers.canonical.errors import UpstreamError
from providers.dialect import ResponseMeta


class TargetRun:
    """A target and how it went. A later round tries it again with the same run."""

    __slots__ = (
        *("is_full", "left_out", "may_hedge", "model_name", "place", "refusals", "retries", "retry_after_s"),
        *("source", "target", "terms", "timeouts", "was_tried"),
    )

    def __init__(self, target: Target, model_name: str, retries: int, timeouts: AttemptTimeouts, may_hedge: bool) -> None:
        self.target = target
        self.model_name = model_name
        self.retries = retries
        self.timeouts = timeouts
        self.may_hedge = may_hedge
        # It had no place for the request.
        self.is_full = False
        self.was_tried = False
        # The least wait before it may be tried again. None: that would be useless.
        self.retry_after_s: float | None = None
        # Where the target has `max_concurrency`, while it is tried.
        self.place: Place | None = None
        # What it is sent, from the beginning of each round.
        self.source: SourceRequest
        self.terms: TargetTerms
        # Paths of what that request does not have.
        self.left_out: Sequence[str] = ()
        # Reads its refusals of this round. None: there was none.
        self.refusals: RefusalReader | None = None

    def note_wait(self, error: UpstreamError) -> None:
        """One of its endpoints may serve the request after the error's Retry-After."""
        wait_s = error.retry_after_s or 0.0
        self.retry_after_s = wait_s if self.retry_after_s is None else min(self.retry_after_s, wait_s)

    def release_place(self) -> None:
        """Releases the place, if it has one. A second call does nothing."""
        if self.place is not None:
            self.place.release()
            self.place = None


class Serving:
    """One request on its way through the targets of its plan."""

    __slots__ = ("attempted", "context", "failures", "meta", "priority", "sources", "team_id")

    def __init__(self, sources: ProviderSources, meta: ResponseMeta, context: RequestContext, attempted: Attempted, priority: int) -> None:
        self.sources = sources
        self.meta = meta
        self.context = context
        self.attempted = attempted
        self.failures = Failures()
        self.priority = priority  # that of the caller's key, or a lower one of its header
        caller = attempted.planned.admitted.authenticated.caller
        # A shadow takes no turn of a team's.
        self.team_id = caller.team_id if caller.shadow is None else f"shadow/{caller.shadow}"
