"""The parts that every request needs, put together once by app/main.py."""

from collections.abc import Callable, Mapping
from typing import Protocol

from app.domain.exchange import Outcome
from app.gateway.attempts.attempts import Attempts
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.feedback.intake import FeedbackIntake
from app.gateway.feedback.sent import SentFeedback
from app.gateway.fleet.fleet import Fleet
from app.gateway.functions.function_table import FunctionTable
from app.gateway.idempotency.idempotency import Idempotency
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.limits.limits import Limits
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.memory.body_memory import BodyMemory
from app.gateway.pipeline.keep_alives import KeepAlives
from app.gateway.pipeline.load_shedding import LoadShedder
from app.gateway.pipeline.refusals import RefusalRecorder
from app.gateway.request_translation.team_salts import TeamSalts
from app.gateway.responses_state.conversations import ConversationStore
from app.gateway.state.charges import actual_usage
from app.gateway.state.context import RequestContext
from app.gateway.state.episode_id import EpisodeIds
from app.gateway.state.stages import Attempted, Planned
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.process.background_tasks import BackgroundTask
from app.process.telemetry import Telemetry
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.postgres.vault import SummaryCipher
from providers.dialect import CallerDialect
from providers.transport.transport import Transport


class Shadows(Protocol):
    """Answers a share of requests again, for comparison; see app/gateway/shadow/queue.py. Nothing here waits or raises."""

    def draw(
        self,
        context: RequestContext,
        dialect: CallerDialect,
        planned: Planned,
        raw: bytes,
        upstream_raw: bytes,
        headers: Mapping[bytes, bytes],
    ) -> None:
        """Decides whether this request is one of them, which is then answered again once it has ended."""
        ...

    def cancel(self) -> None: ...

    async def stop(self) -> None: ...


class Gateway:
    """The parts that every request needs, put together once (app/main.py)."""

    def __init__(
        self,
        settings: Settings,
        snapshot_cache: SnapshotCache,
        fleet: Fleet,
        limits: Limits,
        transport: Transport,
        spool: Spool,
        telemetry: Telemetry,
        idempotency: Idempotency,
        media: MediaFetcher,
        conversations: ConversationStore,
        checks: ConstraintChecks,
        body_memory: BodyMemory,
        large_requests: LargeRequests,
        refusals: RefusalRecorder,
        create_shadows: "Callable[[Gateway], Shadows]",
        sent_feedback: SentFeedback,
    ) -> None:
        self.settings = settings
        self.snapshot_cache = snapshot_cache
        self.fleet = fleet
        self.limits = limits
        self.transport = transport
        self.target_queues = TargetQueues(settings, limits)
        self.attempts = Attempts(settings, fleet, limits, checks, transport, large_requests, self.target_queues)
        self.spool = spool
        self.telemetry = telemetry
        self.idempotency = idempotency
        self.media = media
        self.conversations = conversations
        self.checks = checks
        self.body_memory = body_memory
        self.large_requests = large_requests
        self.refusals = refusals
        self.team_salts = TeamSalts(settings.secret_key.parsed)
        self.summaries = SummaryCipher(settings.secret_key.parsed)
        self.episode_ids = EpisodeIds(settings.secret_key.parsed)
        self.function_table = FunctionTable()
        self.feedback = FeedbackIntake(settings, snapshot_cache, spool, self.episode_ids, large_requests, telemetry, sent_feedback)
        self.load_shedder = LoadShedder(settings)
        self.keep_alives = KeepAlives(settings)
        self.shadows = create_shadows(self)
        self.draining = False
        self.background_tasks: list[BackgroundTask] = [
            *snapshot_cache.background_tasks,
            *fleet.background_tasks,
            *limits.background_tasks,
            *idempotency.background_tasks,
            refusals.task,
            self.load_shedder.task,
            self.keep_alives.task,
        ]

    def finish_exchange(self, context: RequestContext, outcome: Outcome) -> None:
        """Records the exchange, counts it, and settles its reservation. Once: a second call does nothing."""
        planned = context.planned
        if planned is None:
            return
        exchange = context.write_record(planned, outcome)
        if exchange is not None:
            if exchange.shadow is None:
                self.telemetry.count_exchange(exchange)
            else:
                self.telemetry.count_shadow(exchange.shadow.name, exchange)
        reservation = planned.reservation
        if reservation is not None and not reservation.settled:
            if exchange is None or not isinstance(context.stage, Attempted):  # no engine was called
                self.limits.cancel(reservation)
            else:
                self.limits.settle(reservation, actual_usage(exchange))
        context.is_finished = True
