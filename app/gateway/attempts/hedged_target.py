"""The two attempts of a hedged request: the second goes to another endpoint of the target, else to the model's next target."""

import time
from collections.abc import Awaitable, Sequence

from app.gateway.attempts.attempt_failures import Rank
from app.gateway.attempts.endpoint_attempts import AttemptStage, EndpointAttempts
from app.gateway.attempts.hedging import HedgedAttempt, HedgeTimer, send_hedged
from app.gateway.attempts.outcomes import record_failure
from app.gateway.attempts.serving import Serving, TargetRun
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.attempts.target_source import find_source
from app.gateway.fleet.endpoint_choice import EndpointChoice
from app.gateway.fleet.fleet import Fleet
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.state.stages import Attempted
from app.gateway.upstream.outbound_stream import OutboundStream
from providers.canonical.errors import NarthexError, UpstreamError
from providers.dialect import OutboundResponse


def may_hedge(attempted: Attempted, translated: TranslatedRequest, source: SourceRequest) -> bool:
    """Nobody waits for a shadow: it would use up the model's budget of second attempts, and its times are not those of callers."""
    return not (attempted.attempts or translated.parts or source.terms.resumable is not None or attempted.is_shadow)


class HedgedTargets:
    """Sends requests of models with `hedge`: two attempts where one alone takes too long."""

    def __init__(self, fleet: Fleet, target_queues: TargetQueues, endpoint_attempts: EndpointAttempts) -> None:
        self._fleet = fleet
        self._target_queues = target_queues
        self._endpoint_attempts = endpoint_attempts
        self._timer = HedgeTimer()

    async def send(
        self, serving: Serving, run: TargetRun, runs: Sequence[TargetRun], choice: EndpointChoice, first: HedgedAttempt
    ) -> tuple[OutboundResponse | OutboundStream, HedgedAttempt]:
        """Returns the first response and the attempt that it came from. See send_hedged()."""
        attempted, model_name, streamed = serving.attempted, run.model_name, first.source.request.stream
        hedge = attempted.planned.plan.snapshot.models[model_name].hedge
        assert hedge is not None

        def send(attempt: HedgedAttempt, own: Attempted, stage: AttemptStage) -> Awaitable[OutboundResponse | OutboundStream]:
            return self._endpoint_attempts.try_credentials(
                *(attempt.endpoint, attempt.target, attempt.translated, attempt.source, serving.meta, stage, own),
                *(attempt.timeouts, attempt.prompt_tokens),
            )

        async def find_second() -> HedgedAttempt | None:
            if not self._timer.spend(model_name, streamed=streamed):
                return None
            try:
                return await self._find_second(serving, run, runs, choice)
            except NarthexError:  # there is no such place, or the request cannot be sent there
                return None

        def record_second(second: HedgedAttempt, error: UpstreamError) -> None:
            record_failure(self._fleet, attempted, second.endpoint, second.target.model, error)
            serving.failures.add(Rank.UPSTREAM, error)

        delay_s = self._timer.begin(model_name, hedge, streamed=streamed)
        if delay_s is None:
            response, winner = await send(first, attempted, serving.context), first
        else:
            response, winner = await send_hedged(first, attempted, serving.context, send, delay_s, find_second, record_second)
        if winner is not first:
            run.release_place()
            if winner.place is not None and attempted.call is not None:
                attempted.call.release_with(winner.place.release)
        # A superseded first attempt would have taken longer still.
        self._timer.record(model_name, min(attempted.attempts, key=lambda attempt: attempt.started_us), streamed=streamed)
        return response, winner

    async def _find_second(
        self, serving: Serving, run: TargetRun, runs: Sequence[TargetRun], choice: EndpointChoice
    ) -> HedgedAttempt | None:
        """Returns an attempt at another endpoint of the target, else at the model's next target, or None.

        Raises NarthexError.
        """
        for other in (run, *(each for each in runs if each is not run)):
            target = other.target
            source, terms, left_out = await find_source(serving, other.model_name, target)
            if other is not run:
                choice = serving.attempted.planned.endpoint_table.choose_endpoints(
                    target, source.request, source.terms.team_id, source.terms.session
                )
            endpoint = choice.take_another() if other is run else choice.best(time.monotonic())
            if endpoint is None:
                continue
            translated = await translate_request(source, endpoint, target, terms)
            if translated.parts:
                continue
            place = await self._target_queues.take(target, serving.team_id, serving.priority, 0.0)
            return HedgedAttempt(endpoint, target, translated, source, left_out, other.timeouts, choice.begin(endpoint), place)
        return None
