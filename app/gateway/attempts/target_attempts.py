"""Attempts at the targets of one model: each target's endpoints in turn, and then again the targets that may have recovered."""

import asyncio
import random
import time
from collections.abc import Sequence

import httpx2

from app.gateway.attempts.attempt_failures import Rank
from app.gateway.attempts.endpoint_attempts import MAX_ATTEMPTS, EndpointAttempts
from app.gateway.attempts.hedged_target import HedgedTargets, may_hedge
from app.gateway.attempts.hedging import HedgedAttempt
from app.gateway.attempts.outcomes import discard_refused, discard_violation, is_refused, note_translation, record_failure, record_success
from app.gateway.attempts.serving import Serving, TargetRun
from app.gateway.attempts.target_order import has_fallback_for
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.attempts.target_source import adapt_to_refusal, find_source
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_choice import EndpointChoice
from app.gateway.fleet.fleet import Fleet
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.request_translation.grown_chat import add_repair_messages
from app.gateway.request_translation.recipient import USUAL_TERMS, TargetTerms
from app.gateway.request_translation.translate_request import edit_at_once, translate_request
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.state.stages import Attempted
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.outbound_stream import OutboundStream
from app.settings import Settings
from providers.canonical.errors import (
    CallerCredentialRequired,
    ConstraintUnchecked,
    ConstraintViolation,
    InvalidUpstreamResponse,
    NarthexError,
    OperationNotSupported,
    Overloaded,
    QuotaExhausted,
    StreamTruncated,
    TimedOut,
    Unavailable,
    Unreachable,
    Unsupported,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
)
from providers.canonical.refusal_reasons import refusal_reason
from providers.dialect import OutboundResponse

# Of the first retry; doubled for each further one.
_FIRST_RETRY_WAIT_S = 0.1


class TargetAttempts:
    """Tries targets. `fleet` learns which endpoints fail."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        checks: ConstraintChecks,
        transport: httpx2.AsyncBaseTransport,
        large_requests: LargeRequests,
        target_queues: TargetQueues,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._large_requests = large_requests
        self._target_queues = target_queues
        self._endpoint_attempts = EndpointAttempts(settings, checks, transport, large_requests)
        self._hedged = HedgedTargets(fleet, target_queues, self._endpoint_attempts)

    async def serve_model(
        self, serving: Serving, runs: Sequence[TargetRun], *, is_first_round: bool = True
    ) -> OutboundResponse | OutboundStream | None:
        """Tries every endpoint of each target, and then again those targets that may have recovered. None: all have failed.

        `runs` are those of one model. `is_first_round` is False once every target was tried.
        """
        attempted, failures, retry = serving.attempted, serving.failures, 0
        # Rather than wait, a request goes to the model's other targets first.
        may_queue = len(runs) == 1
        while True:
            for run in runs if is_first_round or retry > 0 else ():
                if run.target.max_concurrency is None:
                    response = await self.serve_target(serving, run, runs)
                else:
                    wait_s, may_queue = (run.timeouts.queue_s if may_queue else 0.0), False
                    response = await self._serve_in_turn(serving, run, runs, wait_s)
                if response is not None:
                    return response
                if failures.refusal is not None:
                    return None
            full = [run for run in runs if run.is_full]
            if full and retry == 0 and len(runs) > 1:
                runs = [*full, *(run for run in runs if run not in full and self._may_retry(run, retry))]
                may_queue, retry = True, retry + 1
                continue
            runs = [run for run in runs if self._may_retry(run, retry)]
            if not runs or len(attempted.attempts) >= MAX_ATTEMPTS:
                return None
            await asyncio.sleep(min(_retry_wait_s(run, retry) for run in runs))
            retry += 1

    def _may_retry(self, run: TargetRun, retry: int) -> bool:
        if run.retries <= retry or run.retry_after_s is None:
            return False
        return _retry_wait_s(run, retry) <= self._settings.retry_max_wait_s

    async def _serve_in_turn(
        self, serving: Serving, run: TargetRun, runs: Sequence[TargetRun], wait_s: float
    ) -> OutboundResponse | OutboundStream | None:
        """Does what serve_target() does, once there is a place at a target that has few.

        Returns None, too, if there is no place within `wait_s`.
        """
        try:
            run.place = await self._target_queues.take(run.target, serving.team_id, serving.priority, wait_s)
        except Unavailable as busy:
            serving.failures.add(Rank.LIMITED, busy)
            run.is_full, run.retry_after_s = True, None
            return None
        run.is_full = False
        try:
            response = await self.serve_target(serving, run, runs)
            if response is not None and run.place is not None and serving.attempted.call is not None:
                serving.attempted.call.release_with(run.place.release)
                run.place = None
        finally:
            run.release_place()
        return response

    async def serve_target(self, serving: Serving, run: TargetRun, runs: Sequence[TargetRun]) -> OutboundResponse | OutboundStream | None:
        """Returns None if the target did not serve and the next one is to be tried.

        Raises UpstreamError if trying elsewhere cannot help. `runs` holds all targets of the model. When all
        endpoints have failed before, only the best one is tried again, unless its breaker has opened.
        """
        attempted, target = serving.attempted, run.target
        is_retry = run.was_tried
        choice = await self._begin_round(serving, run)
        for endpoint in choice:
            if len(attempted.attempts) >= MAX_ATTEMPTS or (is_retry and endpoint.breaker.is_open(time.monotonic())):
                break
            if endpoint.busy_times and (busy := _refuse_busy(endpoint, target.model, serving)) is not None:
                serving.failures.add(Rank.UPSTREAM, busy)
                run.note_wait(busy)
                continue
            try:
                translated = edit_at_once(run.source, endpoint, target, run.terms)
                if translated is None:
                    translated = await translate_request(run.source, endpoint, target, run.terms)
            except NarthexError as reason:
                if _note_untranslated(serving, reason):
                    continue
                break
            if run.refusals is not None and run.refusals.refused is not None:
                run.refusals.check_is_adapted(translated)
            if run.source.continues and (translated.emulation is not None or translated.is_checked or not translated.stream):
                serving.failures.add(Rank.UNSUPPORTED, _cannot_continue(endpoint))
                break
            if run.source.terms.wants_explanation:
                attempted.candidates = choice.explain(time.monotonic())
            prompt_tokens, left_out = choice.begin(endpoint), run.left_out
            try:
                if run.may_hedge and may_hedge(attempted, translated, run.source):
                    first = HedgedAttempt(endpoint, target, translated, run.source, left_out, run.timeouts, prompt_tokens)
                    response, winner = await self._hedged.send(serving, run, runs, choice, first)
                    endpoint, translated, left_out = winner.endpoint, winner.translated, winner.left_out
                else:
                    response = await self._endpoint_attempts.try_credentials(
                        endpoint, target, translated, run.source, serving.meta, serving.context, attempted, run.timeouts, prompt_tokens
                    )
            except (ConstraintViolation, CallerCredentialRequired, UpstreamError) as error:
                if await self._may_go_on(error, serving, run, choice, endpoint, translated, is_retry=is_retry):
                    continue
                break
            record_success(self._fleet, attempted, endpoint)
            if is_refused(response) and has_fallback_for(attempted.planned.plan, "content_refused"):
                assert attempted.call is not None
                await attempted.call.release()
                discard_refused(attempted, response, serving.failures)
                break
            note_translation(attempted, translated, left_out)
            return response
        return None

    async def _begin_round(self, serving: Serving, run: TargetRun) -> EndpointChoice:
        """The target's endpoints, best first. Notes in the run what they are sent."""
        attempted, target, sources = serving.attempted, run.target, serving.sources
        run.was_tried, run.retry_after_s, run.refusals = True, None, None
        source = sources.original
        if not sources.are_all_the_same or source.depends_on_target:
            run.source, run.terms, run.left_out = await find_source(serving, run.model_name, target)
        else:
            run.source, run.terms, run.left_out = source, USUAL_TERMS, ()
            if not source.request.holds_only_text:  # whether it reads images
                run.terms = TargetTerms(capabilities=attempted.planned.plan.snapshot.models[run.model_name].capabilities)
        source = run.source
        choice = attempted.planned.endpoint_table.choose_endpoints(target, source.request, source.terms.team_id, source.terms.session)
        if attempted.broken_endpoint is not None:
            choice.avoid(attempted.broken_endpoint)
        return choice

    async def _may_go_on(
        self,
        error: NarthexError,
        serving: Serving,
        run: TargetRun,
        choice: EndpointChoice,
        endpoint: Endpoint,
        translated: TranslatedRequest,
        *,
        is_retry: bool,
    ) -> bool:
        """Notes a failed attempt. Returns whether the target's next endpoint is tried, or this one again.

        Raises the error if the caller is to get it, whatever other targets are.
        """
        attempted, failures = serving.attempted, serving.failures
        if isinstance(error, CallerCredentialRequired):
            failures.add(Rank.CALLER_CREDENTIAL, error)
            return False
        if isinstance(error, ConstraintViolation):
            failures.add(Rank.UPSTREAM, error)
            discard_violation(attempted, error)
            if isinstance(error, ConstraintUnchecked) or len(attempted.discarded) > run.source.terms.max_repairs:
                return False  # the target's other endpoints serve the same model: that would be a retry which the caller did not allow
            await add_repair_messages(run.source, error, self._large_requests.of_team(run.source.terms.team_id))
            choice.try_again(endpoint)
            return True
        assert isinstance(error, UpstreamError)
        record_failure(self._fleet, attempted, endpoint, run.target.model, error)
        if not error.retry_elsewhere:
            if await adapt_to_refusal(error, self._fleet.learned_rules, serving, run, endpoint, translated):
                choice.try_again(endpoint)
                return True
            reason = refusal_reason(error)
            if reason is None or not has_fallback_for(attempted.planned.plan, reason):
                raise error
            failures.refuse(reason, error)
            return False
        failures.add(Rank.UPSTREAM, error)
        if _may_recover(error, attempted):
            run.note_wait(error)
        return not is_retry


def _refuse_busy(endpoint: Endpoint, model: str, serving: Serving) -> Overloaded | None:
    return endpoint.busy_times.refuse(model, endpoint.provider.configured_as, serving.team_id)


def _note_untranslated(serving: Serving, reason: NarthexError) -> bool:
    """Notes that an endpoint cannot be sent the request. Returns whether the target's next endpoint may be. Raises what is the caller's."""
    match reason:
        case UpstreamNotFound() | Unreachable():  # a LoRA adapter that the endpoint does not have, as far as is known
            serving.failures.add(Rank.UPSTREAM, reason)
            return True
        case OperationNotSupported():
            serving.failures.add(Rank.OPERATION_NOT_SUPPORTED, reason)
            return False
        case Unsupported():
            serving.failures.add(Rank.UNSUPPORTED, reason)
            return False
        case _:
            raise reason


def _cannot_continue(endpoint: Endpoint) -> Unsupported:
    return endpoint.provider.unsupported_error("x-narthex-resume", "it cannot go on with a response that broke off.")


def _may_recover(error: UpstreamError, attempted: Attempted) -> bool:
    """Whether the same endpoint may serve the same request a moment later. A slow failure is not repeated, nor one of the request."""
    match error:
        case TimedOut():
            return attempted.call is not None and not attempted.call.was_sent
        case Overloaded():
            return not isinstance(error, QuotaExhausted)
        case _:
            return isinstance(error, Unreachable | UpstreamFailed | InvalidUpstreamResponse | StreamTruncated)


def _retry_wait_s(run: TargetRun, retry: int) -> float:
    """Doubles with each retry, and differs between requests, so that those that failed together do not come back together."""
    return max(_FIRST_RETRY_WAIT_S * 2**retry * random.uniform(0.5, 1.0), run.retry_after_s or 0.0)
