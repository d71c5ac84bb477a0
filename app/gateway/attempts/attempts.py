"""Attempts: targets are tried in order until one serves. After the first byte to the caller nothing is tried again."""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

import httpx
from msgspec.structs import replace

from app.domain.routing import USUAL_REASONS, Target
from app.domain.snapshot import Plan
from app.gateway.attempts.attempt_failures import Failures, Rank
from app.gateway.attempts.endpoint_attempts import MAX_ATTEMPTS, AttemptStage, EndpointAttempts
from app.gateway.attempts.hedging import HedgedAttempt, HedgeTimer, send_hedged
from app.gateway.attempts.other_models import name_other_models
from app.gateway.attempts.reasoning_state import ProviderTranslators, is_state_refusal
from app.gateway.attempts.target_queues import Place, TargetQueues
from app.gateway.emulation.emulation import Emulation, add_field
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_choice import EndpointChoice
from app.gateway.fleet.fleet import Fleet
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.limits.limits import Limits
from app.gateway.request.request_headers import priority_of, session_of, wants_explanation
from app.gateway.request_translation.choose_dialect import translate_request
from app.gateway.request_translation.refusal_reader import RefusalReader
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.state.charges import estimate_model_usage
from app.gateway.state.context import RequestContext
from app.gateway.state.request_faults import RequestFaults
from app.gateway.state.stages import Attempted, Planned
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.client import OutboundStream
from app.gateway.upstream.progress import charge_response
from app.gateway.upstream.timeouts import AttemptTimeouts, Timeouts
from app.settings import Settings
from providers.adapters.provider import Provider
from providers.canonical.errors import (
    CallerCredentialRequired,
    ConstraintUnchecked,
    ConstraintViolation,
    InvalidUpstreamResponse,
    LimitExceeded,
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
    UpstreamRejected,
)
from providers.canonical.refusal_reasons import RefusalReason, refusal_reason
from providers.canonical.token_estimate import text_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens, estimate_response
from providers.request_overrides.overrides import Scope

# Of the first retry; doubled for each further one.
_FIRST_RETRY_WAIT_S = 0.1


class _TargetRun:
    """A target and how it went. `retry_after_s`: the least wait before it may be tried again; None: that would be useless.

    `place`: where the target has `max_concurrency`, while it is tried. `is_full`: it had no place.
    """

    __slots__ = ("is_full", "may_hedge", "place", "retries", "retry_after_s", "target", "timeouts", "was_tried")

    def __init__(self, target: Target, retries: int, timeouts: AttemptTimeouts, may_hedge: bool) -> None:
        self.target = target
        self.retries = retries
        self.timeouts = timeouts
        self.may_hedge = may_hedge
        self.is_full = False
        self.was_tried = False
        self.retry_after_s: float | None = None
        self.place: Place | None = None

    def note_wait(self, error: UpstreamError) -> None:
        """One of its endpoints may serve the request after the error's Retry-After."""
        wait_s = error.retry_after_s or 0.0
        self.retry_after_s = wait_s if self.retry_after_s is None else min(self.retry_after_s, wait_s)


class _Serving:
    """One request on its way through the targets of its plan. `priority`: see priority_of()."""

    __slots__ = ("attempted", "context", "failures", "meta", "priority", "team_id", "translators")

    def __init__(
        self,
        translators: ProviderTranslators,
        meta: ResponseMeta,
        context: RequestContext,
        attempted: Attempted,
        failures: Failures,
        priority: int,
    ) -> None:
        self.translators = translators
        self.meta = meta
        self.context = context
        self.attempted = attempted
        self.failures = failures
        self.priority = priority
        caller = attempted.planned.admitted.caller
        # A shadow takes no turn of a team's.
        self.team_id = caller.team_id if caller.shadow is None else f"shadow/{caller.shadow}"


class Attempts:
    """Serves plans: `fleet` learns which endpoints fail, `limits` are extended for a fallback with rules of its own."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        limits: Limits,
        checks: ConstraintChecks,
        transport: httpx.AsyncBaseTransport,
        large_requests: LargeRequests,
        target_queues: TargetQueues,
    ) -> None:
        self._settings = settings
        self._target_queues = target_queues
        self._fleet = fleet
        self._limits = limits
        self._large_requests = large_requests
        self._timeouts = Timeouts(settings)
        self._hedge_timer = HedgeTimer()
        self._endpoint_attempts = EndpointAttempts(settings, checks, transport, large_requests)

    async def serve(
        self, translators: ProviderTranslators, planned: Planned, meta: ResponseMeta, context: RequestContext
    ) -> tuple[OutboundResponse | OutboundStream, Attempted]:
        """The first response that a target gives, and what led to it; an estimate, for a request to count tokens that no target can count.

        Raises the failure that tells the caller most: CallerCredentialRequired, UpstreamError, Unsupported, LimitExceeded or
        Unavailable, OperationNotSupported.
        """
        plan = planned.plan
        reserved = {plan.name} if plan.experiment_model is None else {plan.name, plan.experiment_model}
        attempted = Attempted(planned, context.progress, reserved_models=reserved, variant=plan.variant)
        try:
            return await self._serve(translators, attempted, meta, context), attempted
        except asyncio.CancelledError:
            if attempted.faults is not None:
                attempted.faults.settle(was_cancelled=True)
            raise
        finally:
            if attempted.faults is not None:
                attempted.faults.settle()

    async def resume(
        self, error: UpstreamError, translators: ProviderTranslators, attempted: Attempted, meta: ResponseMeta, context: RequestContext
    ) -> OutboundStream | None:
        """The rest of a stream that broke off with this error, from another endpoint or target. None: nobody can go on with it."""
        stream, broken, call, progress = translators.original.resumable, attempted.served, attempted.call, attempted.progress
        if stream is None or broken is None or call is None or not (stream.may_resume and error.retry_elsewhere):
            return None
        if context.disconnected or len(attempted.attempts) >= MAX_ATTEMPTS:
            return None
        try:
            continuing = await translators.continue_text(stream.prefix(), stream.tokens_in_all)
        except NarthexError:  # what the first engine read without our help
            continuing = None
        if continuing is None:
            return None
        self._fleet.record_failure(call.endpoint, call.model, error)
        failed = replace(
            broken,
            duration_us=progress.elapsed_us() - broken.started_us,
            error=type(error).__name__,
            message=error.message,
            code=error.upstream_code,
            request_id=call.request_id,
        )
        charge = progress.charge(
            attempted.planned.admitted.request.input_tokens, attempted.planned.reserved_output if call.may_continue else None
        )
        attempted.attempts[-1] = failed
        attempted.discard(failed, charge)
        attempted.served, attempted.broken_endpoint = None, call.endpoint
        resumed_at = len(stream.text())
        stream.break_off()
        await call.release()
        first_token_us = progress.first_token_us
        try:
            rest = await self._serve(continuing, attempted, meta, context)
        except NarthexError as refusal:
            refusal.without_frames()
            attempted.served = failed if attempted.served is None else attempted.served
            return None
        except asyncio.CancelledError:
            if attempted.faults is not None:
                attempted.faults.settle(was_cancelled=True)
            raise
        finally:
            progress.first_token_us = first_token_us
            if attempted.faults is not None:
                attempted.faults.settle()
        assert isinstance(rest, OutboundStream)
        attempted.served = attempted.attempts[-1] = replace(attempted.attempts[-1], resumed_at=resumed_at)
        return rest

    async def _serve(
        self, translators: ProviderTranslators, attempted: Attempted, meta: ResponseMeta, context: RequestContext
    ) -> OutboundResponse | OutboundStream:
        """Raises as serve() does."""
        planned, reserved, failures = attempted.planned, attempted.reserved_models, Failures()
        translator, plan = translators.original, planned.plan
        priority = priority_of(translator.headers, planned.admitted.caller)
        serving = _Serving(translators, meta, context, attempted, failures, priority)
        if len(plan.targets) == 1 and plan.targets[0].max_concurrency is None and plan.names[0] in reserved:  # as nearly always
            run, remaining = self._run(plan, plan.targets[0], plan.names[0], plan.variant), []
            response = await self._serve_target(serving, plan.names[0], run, (run,))
            if response is None and failures.refusal is None:
                response = await self._serve_model(serving, plan.names[0], (run,), is_first_round=False)
            if response is not None:
                return response
        else:
            remaining = _group_targets(plan, self._rank(translators, attempted))
            if attempted.broken_endpoint is not None:  # another variant has another prompt, which nothing goes on with
                remaining = [each for each in remaining if each.variant == attempted.variant]
        while (at := _find_next(remaining, plan, failures)) is not None:
            group = remaining.pop(at)
            model_name = group.model
            if plan.function is not None and group.variant != attempted.variant and group.variant is not None:
                try:
                    await self._use_variant(serving, group.variant)
                except NarthexError as refusal:  # its templates may not take what those of the first do
                    failures.add(Rank.UNSUPPORTED, refusal)
                    continue
            if model_name not in reserved:
                try:
                    await self._reserve_fallback(planned, model_name, context)
                except (LimitExceeded, Unavailable) as refusal:  # another fallback may have room
                    failures.add(Rank.LIMITED, refusal)
                    continue
                reserved.add(model_name)
            if plan.function is None:
                attempted.variant = group.variant
            runs = [self._run(plan, target, model_name, group.variant) for target in group.targets]
            response = await self._serve_model(serving, model_name, runs)
            if response is not None:
                return response
        translator = serving.translators.original
        error = failures.most_useful(translator.request.model)
        if isinstance(error, OperationNotSupported) and translator.caller_dialect.name == AnthropicCountTokens.name:
            context.stage = attempted
            attempted.emulation = Emulation(("input_tokens",))
            return estimate_response(translator.request.input_tokens)
        if isinstance(error, Unsupported):
            raise await name_other_models(error, translator, planned)
        raise error

    async def _use_variant(self, serving: _Serving, variant: str) -> None:
        """Gives targets the request of this variant from now on.

        Raises NarthexError if its templates refuse it.
        """
        of_variant, attempted = serving.translators.of_variant, serving.attempted
        assert of_variant is not None
        serving.translators = await of_variant(variant)
        attempted.variant = variant
        admitted, request = attempted.planned.admitted, serving.translators.original.request
        if serving.meta.request_body is admitted.request.body:
            serving.meta = replace(serving.meta, request_body=request.body)
        admitted.request = request

    def _rank(self, translators: ProviderTranslators, attempted: Attempted) -> Sequence[int]:
        """The positions of the plan's targets in the order in which to try them."""
        table, plan = attempted.planned.endpoint_table, attempted.planned.plan
        ranked = table.rank_targets(plan)
        if translators.marked_state is not None:
            ranked = translators.marked_state.sort_targets(ranked, plan)
        if attempted.broken_endpoint is not None:
            ranked = sorted(ranked, key=lambda at: _tried_before(plan.targets[at], table.endpoints_of(plan.targets[at]), attempted))
        return ranked

    def _run(self, plan: Plan, target: Target, model_name: str, variant_name: str | None) -> _TargetRun:
        """Begins the run of a target.

        `variant_name` is the variant whose prompt it gets, or None if the plan is of no function.
        """
        model = plan.snapshot.models[model_name]
        retries = target.retries if target.retries is not None else model.retries
        if variant_name is None or plan.function is None:
            timeouts = self._timeouts.of(model, target)
        else:
            variant = plan.snapshot.functions[plan.function].variants[variant_name]
            retries = retries if variant.retries is None else variant.retries
            timeouts = self._timeouts.of(model, target, variant)
        return _TargetRun(target, self._settings.retries if retries is None else retries, timeouts, model.hedge is not None)

    async def _serve_model(
        self, serving: "_Serving", model_name: str, runs: Sequence[_TargetRun], *, is_first_round: bool = True
    ) -> OutboundResponse | OutboundStream | None:
        """Tries every endpoint of each target, and then again those targets that may have recovered. None: all have failed.

        `is_first_round` False: every target was tried once.
        """
        attempted, failures, retry = serving.attempted, serving.failures, 0
        # Rather than wait, a request goes to the model's other targets first.
        may_queue = len(runs) == 1
        while True:
            for run in runs if is_first_round or retry > 0 else ():
                if run.target.max_concurrency is None:
                    response = await self._serve_target(serving, model_name, run, runs)
                else:
                    wait_s, may_queue = (run.timeouts.queue_s if may_queue else 0.0), False
                    response = await self._serve_in_turn(serving, model_name, run, runs, wait_s)
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

    def _may_retry(self, run: _TargetRun, retry: int) -> bool:
        if run.retries <= retry or run.retry_after_s is None:
            return False
        return _retry_wait_s(run, retry) <= self._settings.retry_max_wait_s

    async def _serve_in_turn(
        self, serving: "_Serving", model_name: str, run: _TargetRun, runs: Sequence[_TargetRun], wait_s: float
    ) -> OutboundResponse | OutboundStream | None:
        """Does what _serve_target() does, once there is a place at a target that has few.

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
            response = await self._serve_target(serving, model_name, run, runs)
            if response is not None and run.place is not None and serving.attempted.call is not None:
                serving.attempted.call.release_with(run.place.release)
                run.place = None
        finally:
            if run.place is not None:
                run.place.release()
                run.place = None
        return response

    async def _serve_target(
        self, serving: "_Serving", model_name: str, run: _TargetRun, runs: Sequence[_TargetRun]
    ) -> OutboundResponse | OutboundStream | None:
        """Returns None if the target did not serve and the next one is to be tried.

        Raises UpstreamError if trying elsewhere cannot help. `runs` holds all targets of the model. When all
        endpoints have failed before, only the best one is tried again, unless its breaker has opened.
        """
        attempted, failures, translators = serving.attempted, serving.failures, serving.translators
        target, run.retry_after_s = run.target, None
        is_retry, run.was_tried = run.was_tried, True
        translator, left_out = translators.original, ()
        if not translators.are_all_the_same or translator.depends_on_target:
            translator, left_out = await self._translator_for(serving, model_name, target)
        elif not translator.request.holds_only_text:  # whether it reads images
            translator.capabilities = attempted.planned.plan.snapshot.models[model_name].capabilities
        choice = attempted.planned.endpoint_table.choose_endpoints(
            target, translator.request, translator.team_id, session_of(translator.headers)
        )
        if attempted.broken_endpoint is not None:
            choice.avoid(attempted.broken_endpoint)
        reader: RefusalReader | None = None
        for endpoint in choice:
            if len(attempted.attempts) >= MAX_ATTEMPTS or (is_retry and endpoint.breaker.is_open(time.monotonic())):
                break
            if endpoint.busy_times and (busy := endpoint.busy_times.refuse(target.model, endpoint.provider.configured_as)) is not None:
                failures.add(Rank.UPSTREAM, busy)
                run.note_wait(busy)
                continue
            try:
                translated = await translate_request(translator, endpoint, target)
            except (UpstreamNotFound, Unreachable) as reason:  # a LoRA adapter that the endpoint does not have, as far as is known
                failures.add(Rank.UPSTREAM, reason)
                continue
            except OperationNotSupported as reason:
                failures.add(Rank.OPERATION_NOT_SUPPORTED, reason)
                break
            except Unsupported as reason:
                failures.add(Rank.UNSUPPORTED, reason)
                break
            if reader is not None and reader.refused is not None:
                reader.check_is_adapted(translated)
            if translator.continues and (translated.emulation is not None or translated.is_checked or not translated.stream):
                failures.add(Rank.UNSUPPORTED, _cannot_continue(endpoint))
                break
            if wants_explanation(translator.headers):
                attempted.candidates = choice.explain(time.monotonic())
            prompt_tokens = choice.begin(endpoint)
            try:
                if run.may_hedge and _may_hedge(attempted, translated, translator):
                    first = HedgedAttempt(endpoint, target, translated, translator, left_out, run.timeouts, prompt_tokens)
                    response, winner = await self._send_hedged(serving, model_name, run, runs, choice, first)
                    endpoint, translated, left_out = winner.endpoint, winner.translated, winner.left_out
                else:
                    response = await self._endpoint_attempts.try_credentials(
                        endpoint, target, translated, translator, serving.meta, serving.context, attempted, run.timeouts, prompt_tokens
                    )
            except ConstraintViolation as error:
                failures.add(Rank.UPSTREAM, error)
                _discard_response(attempted, error)
                if isinstance(error, ConstraintUnchecked) or len(attempted.discarded) > translator.max_repairs:
                    break  # the target's other endpoints serve the same model: that would be a retry which the caller did not allow
                await translator.add_repair_messages(error, self._large_requests.of_team(translator.team_id))
                choice.try_again(endpoint)
            except CallerCredentialRequired as error:
                failures.add(Rank.CALLER_CREDENTIAL, error)
                break
            except UpstreamError as error:
                self._record_failure(attempted, endpoint, target.model, error)
                if not error.retry_elsewhere:
                    reader = reader or RefusalReader(self._fleet.learned_rules, target)
                    if await _adapt_to_refusal(error, reader, translated, translators, translator, target, endpoint.provider, attempted):
                        translator, left_out = await self._translator_for(serving, model_name, target)
                        choice.try_again(endpoint)
                        continue
                    reason = refusal_reason(error)
                    if reason is None or not _has_fallback_for(attempted.planned.plan, reason):
                        raise
                    failures.refuse(reason, error)
                    return None
                failures.add(Rank.UPSTREAM, error)
                if _may_retry(error, attempted):
                    run.note_wait(error)
                if is_retry:
                    break
            else:
                if not attempted.is_shadow:
                    self._fleet.record_success(endpoint)
                    if attempted.faults is not None:
                        attempted.faults.settle()
                if _is_refused(response) and _has_fallback_for(attempted.planned.plan, "content_refused"):
                    assert attempted.call is not None
                    await attempted.call.release()
                    _refuse_response(attempted, response, failures)
                    return None
                _note_translation(attempted, translated, left_out)
                return response
        return None

    def _record_failure(self, attempted: Attempted, endpoint: Endpoint, model: str, error: UpstreamError) -> None:
        """A 500 counts later, when it is known whether another endpoint answers the request: see RequestFaults."""
        if attempted.is_shadow:
            return
        if not isinstance(error, UpstreamFailed) or not error.counts_as_failure:
            self._fleet.record_failure(endpoint, model, error)
            return
        if attempted.faults is None:
            attempted.faults = RequestFaults(self._fleet, attempted.planned.admitted.caller.team_id)
        attempted.faults.add(endpoint, model, error)

    async def _send_hedged(
        self,
        serving: "_Serving",
        model_name: str,
        run: _TargetRun,
        runs: Sequence[_TargetRun],
        choice: EndpointChoice,
        first: HedgedAttempt,
    ) -> tuple[OutboundResponse | OutboundStream, HedgedAttempt]:
        """Returns the first response and the attempt that it came from. See send_hedged().

        There are two attempts where one alone takes too long.
        """
        attempted, streamed = serving.attempted, first.translator.request.stream
        hedge = attempted.planned.plan.snapshot.models[model_name].hedge
        assert hedge is not None

        def send(attempt: HedgedAttempt, own: Attempted, stage: AttemptStage) -> Awaitable[OutboundResponse | OutboundStream]:
            return self._endpoint_attempts.try_credentials(
                *(attempt.endpoint, attempt.target, attempt.translated, attempt.translator, serving.meta, stage, own),
                *(attempt.timeouts, attempt.prompt_tokens),
            )

        async def find_second() -> HedgedAttempt | None:
            if not self._hedge_timer.spend(model_name, streamed=streamed):
                return None
            try:
                return await self._find_second(serving, model_name, run, runs, choice)
            except NarthexError:  # there is no such place, or the request cannot be sent there
                return None

        def record_failure(second: HedgedAttempt, error: UpstreamError) -> None:
            self._record_failure(attempted, second.endpoint, second.target.model, error)
            serving.failures.add(Rank.UPSTREAM, error)

        delay_s = self._hedge_timer.begin(model_name, hedge, streamed=streamed)
        if delay_s is None:
            response, winner = await send(first, attempted, serving.context), first
        else:
            response, winner = await send_hedged(first, attempted, serving.context, send, delay_s, find_second, record_failure)
        if winner is not first:
            if run.place is not None:
                run.place.release()
                run.place = None
            if winner.place is not None and attempted.call is not None:
                attempted.call.release_with(winner.place.release)
        # A superseded first attempt would have taken longer still.
        self._hedge_timer.record(model_name, min(attempted.attempts, key=lambda each: each.started_us), streamed=streamed)
        return response, winner

    async def _find_second(
        self, serving: "_Serving", model_name: str, run: _TargetRun, runs: Sequence[_TargetRun], choice: EndpointChoice
    ) -> HedgedAttempt | None:
        """Returns an attempt at another endpoint of the target, else at the model's next target, or None.

        Raises NarthexError.
        """
        for other in (run, *(each for each in runs if each is not run)):
            translator, left_out = await self._translator_for(serving, model_name, other.target)
            if other is not run:
                choice = serving.attempted.planned.endpoint_table.choose_endpoints(
                    other.target, translator.request, translator.team_id, session_of(translator.headers)
                )
            endpoint = choice.take_another() if other is run else choice.best(time.monotonic())
            if endpoint is None:
                continue
            translated = await translate_request(translator, endpoint, other.target)
            if translated.parts:
                continue
            place = await self._target_queues.take(other.target, serving.team_id, serving.priority, 0.0)
            return HedgedAttempt(endpoint, other.target, translated, translator, left_out, other.timeouts, choice.begin(endpoint), place)
        return None

    async def _translator_for(self, serving: "_Serving", model_name: str, target: Target) -> tuple[RequestTranslator, Sequence[str]]:
        """The translator for a target, and the paths of what its request does not have. See ProviderTranslators."""
        translator, left_out = await serving.translators.of(target.provider)
        if translator.operator_drops is not None:
            plan = serving.attempted.planned.plan
            requested = () if plan.experiment_model is None else (plan.experiment_model,)
            base = _model_of(plan, serving.attempted.variant)
            translator.apply_operator_drops((*requested, base, model_name), target.provider)
        if translator.request.overrides is not None:
            translator.serving = Scope(model_name, target.provider, serving.attempted.variant)
        translator.capabilities = serving.attempted.planned.plan.snapshot.models[model_name].capabilities
        return translator, left_out

    async def _reserve_fallback(self, planned: Planned, model_name: str, context: RequestContext) -> None:
        """Reserves against the rules that a fallback has of its own. Raises LimitExceeded or Unavailable."""
        admitted = planned.admitted
        estimate = estimate_model_usage(
            admitted.request, planned.plan, model_name, self._settings.limits_output_tokens, context.received_us / 1e6
        )
        planned.reserved_output = max(planned.reserved_output, estimate.output_tokens)
        planned.reservation = await self._limits.extend_reservation(
            planned.reservation, context.id, admitted.caller, model_name, admitted.tags, estimate, planned.matcher, planned.plan.function
        )


async def _adapt_to_refusal(
    error: UpstreamError,
    reader: RefusalReader,
    translated: TranslatedRequest,
    translators: ProviderTranslators,
    translator: RequestTranslator,
    target: Target,
    provider: Provider,
    attempted: Attempted,
) -> bool:
    """Whether the target is to be tried once more, as the request is now without what its host refused."""
    is_adapted = False
    if is_state_refusal(error) or reader.blames_dropped_blocks(error):
        is_adapted = reader.drop_bound_blocks(error, translated, translator, provider)
        if not is_adapted:
            reader.forget_blocks(translator)
            translators.original.own_rules = translator.own_rules
            if await translators.leave_state_out(provider.configured_as):
                return True
    newest = attempted.attempts[-1]
    if not is_adapted and (newest.provider, newest.model) == (target.provider, target.model):  # a hedge may have gone elsewhere
        # An account of a caller's own may lack what others have.
        is_callers_own = attempted.call is not None and attempted.call.credential_client.is_callers_own
        is_adapted = await reader.learn(error, translated, translator, may_share=not (is_callers_own or attempted.is_shadow))
    if is_adapted:
        translators.original.own_rules = translator.own_rules
    return is_adapted


def _tried_before(target: Target, endpoints: Sequence[Endpoint], attempted: Attempted) -> tuple[bool, int]:
    """The order of targets that go on with a broken stream: those with an endpoint at another address than the broken one come first.

    Of the others, one that was tried less often does: another model at that address may go on where this one breaks off each time.
    """
    broken = attempted.broken_endpoint
    tried = [attempt for attempt in attempted.attempts if (attempt.provider, attempt.model) == (target.provider, target.model)]
    return all(endpoint is broken for endpoint in endpoints), len(tried)


class _TargetGroup(NamedTuple):
    """Targets of one model, tried one after the other. `variant`: whose prompt they get; None: the plan is of no function."""

    model: str
    variant: str | None
    targets: Sequence[Target]


def _group_targets(plan: Plan, ranked: Sequence[int]) -> list[_TargetGroup]:
    """The targets of each model, and of each variant, in the same order. `ranked`: positions in the plan."""
    if len(ranked) == 1:
        return [_TargetGroup(plan.names[ranked[0]], plan.variants[ranked[0]] if plan.variants else None, [plan.targets[ranked[0]]])]

    def group(at: int) -> tuple[str, str | None]:
        return plan.names[at], plan.variants[at] if plan.variants else None

    return [_TargetGroup(*key, [plan.targets[at] for at in each]) for key, each in itertools.groupby(ranked, key=group)]


def _note_translation(attempted: Attempted, translated: TranslatedRequest, left_out: Sequence[str]) -> None:
    """Records what was emulated, what the response was made without, and how its constraint was kept."""
    attempted.emulation = translated.emulation
    if attempted.planned.admitted.read_as:
        attempted.emulation = add_field(translated.emulation, attempted.planned.admitted.read_as)
    attempted.dropped = [*attempted.planned.admitted.reserved_fields, *left_out, *translated.dropped]
    constraint_plan = translated.constraint_plan
    if attempted.progress.is_unvalidated:
        attempted.structured_output = "unvalidated"
    elif constraint_plan is not None:
        attempted.structured_output = constraint_plan.enforcement
    elif translated.is_checked:  # the calls of strict tools
        attempted.structured_output = "validated"


def _discard_response(attempted: Attempted, violation: ConstraintViolation) -> None:
    """No caller gets this response, but an engine wrote it: it is charged like one that broke off."""
    input_tokens = attempted.planned.admitted.request.input_tokens
    charge = None if attempted.call is None else attempted.call.charge_parts(attempted.planned.reserved_output)
    if charge is None:
        charge = charge_response(violation.usage, input_tokens, text_tokens(len(violation.response_text)))
    attempted.discard(attempted.attempts[-1], charge)


def _find_next(remaining: Sequence[_TargetGroup], plan: Plan, failures: Failures) -> int | None:
    """The first model that may serve after what has failed; None: none may.

    A fallback may come first, if its reasons include failures: the targets of the plan's own model are all in cooldown. Another variant is
    a fallback for the usual reasons.
    """
    for at, group in enumerate(remaining):
        base = _model_of(plan, group.variant)
        if group.model != base:
            on = plan.snapshot.models[base].fallback_on.get(group.model, USUAL_REASONS)
        elif group.variant == plan.variant:
            if failures.refusal is None:
                return at
            continue
        else:
            on = USUAL_REASONS
        if failures.refusal in on if failures.refusal is not None else not (failures.reasons or {"failure"}).isdisjoint(on):
            return at
    return None


def _model_of(plan: Plan, variant: str | None) -> str:
    """The model that the plan, or one of its variants, is for; what else serves it are that model's fallbacks."""
    if variant is None or variant == plan.variant:
        return plan.name
    if plan.function is None:  # an arm of a model's experiment
        return variant if variant in plan.snapshot.models else plan.name if plan.experiment_model is None else plan.experiment_model
    return plan.snapshot.functions[plan.function].variants[variant].model


def _cannot_continue(endpoint: Endpoint) -> Unsupported:
    return endpoint.provider.unsupported_error("x-narthex-resume", "it cannot go on with a response that broke off.")


def _may_hedge(attempted: Attempted, translated: TranslatedRequest, translator: RequestTranslator) -> bool:
    """Nobody waits for a shadow: it would use up the model's budget of second attempts, and its times are not those of callers."""
    return not (attempted.attempts or translated.parts or translator.resumable is not None or attempted.is_shadow)


def _may_retry(error: UpstreamError, attempted: Attempted) -> bool:
    """Whether the same endpoint may serve the same request a moment later. A slow failure is not repeated, nor one of the request."""
    match error:
        case TimedOut():
            return attempted.call is not None and not attempted.call.was_sent
        case Overloaded():
            return not isinstance(error, QuotaExhausted)
        case _:
            return isinstance(error, Unreachable | UpstreamFailed | InvalidUpstreamResponse | StreamTruncated)


def _retry_wait_s(run: _TargetRun, retry: int) -> float:
    """Doubles with each retry, and differs between requests, so that those that failed together do not come back together."""
    return max(_FIRST_RETRY_WAIT_S * 2**retry * random.uniform(0.5, 1.0), run.retry_after_s or 0.0)


def _has_fallback_for(plan: Plan, reason: RefusalReason) -> bool:
    config = plan.snapshot.models[plan.name]
    return any(reason in config.fallback_on.get(name, ()) for name in plan.names if name != plan.name)


def _is_refused(response: OutboundResponse | OutboundStream) -> bool:
    """Whether the host refused to answer. Of a stream that is known too late: its first bytes go to the caller."""
    return isinstance(response, OutboundResponse) and response.finish_reason == "content_filter"


def _refuse_response(attempted: Attempted, response: OutboundResponse | OutboundStream, failures: Failures) -> None:
    """Nobody gets this response, which is charged all the same."""
    assert isinstance(response, OutboundResponse)
    input_tokens = attempted.planned.admitted.request.input_tokens
    attempt = attempted.attempts[-1]
    attempted.served = None
    attempted.discard(attempt, charge_response(response.usage, input_tokens, text_tokens(len(response.raw))))
    failures.refuse("content_refused", UpstreamRejected(f"{attempt.provider} refused to answer this.", upstream_status=400))
