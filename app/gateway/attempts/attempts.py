"""Attempts: targets are tried in order until one serves. After the first byte to the caller nothing is tried again.

Attempts.serve()               all targets of a plan: the requested model's, then those of its fallbacks (target_order.py)
TargetAttempts.serve_model()   the targets of one model, and again those that may recover (target_attempts.py)
TargetAttempts.serve_target()  the endpoints of one target, with one attempt or two at once (hedged_target.py)
EndpointAttempts               the credentials of one endpoint (endpoint_attempts.py)
"""

import asyncio

import httpx2
from msgspec.structs import replace

from app.domain.routing import Target
from app.domain.snapshot import Plan
from app.gateway.attempts.attempt_failures import Rank
from app.gateway.attempts.endpoint_attempts import MAX_ATTEMPTS
from app.gateway.attempts.other_models import name_other_models
from app.gateway.attempts.outcomes import discard_broken
from app.gateway.attempts.reasoning_state import ProviderSources
from app.gateway.attempts.serving import Serving, TargetRun
from app.gateway.attempts.target_attempts import TargetAttempts
from app.gateway.attempts.target_order import TargetGroup, find_next, order_targets
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.emulation.emulation import Emulation
from app.gateway.fleet.fleet import Fleet
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.limits.limits import Limits
from app.gateway.request.request_headers import read_priority
from app.gateway.state.charges import estimate_model_usage
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Attempted, Planned
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.outbound_stream import OutboundStream
from app.gateway.upstream.timeouts import Timeouts
from app.settings import Settings
from providers.canonical.errors import LimitExceeded, NarthexError, OperationNotSupported, Unavailable, Unsupported, UpstreamError
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens, estimate_response


class Attempts:
    """Serves plans: `fleet` learns which endpoints fail, `limits` are extended for a fallback with rules of its own."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        limits: Limits,
        checks: ConstraintChecks,
        transport: httpx2.AsyncBaseTransport,
        large_requests: LargeRequests,
        target_queues: TargetQueues,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._limits = limits
        self._timeouts = Timeouts(settings)
        self._targets = TargetAttempts(settings, fleet, checks, transport, large_requests, target_queues)

    async def serve(
        self, sources: ProviderSources, attempted: Attempted, meta: ResponseMeta, context: RequestContext
    ) -> OutboundResponse | OutboundStream:
        """The first response that a target gives; an estimate, for a request to count tokens that no target can count.

        `attempted` gets what led to it. Raises the failure that tells the caller most: CallerCredentialRequired, UpstreamError,
        Unsupported, LimitExceeded or Unavailable, OperationNotSupported.
        """
        planned, source = attempted.planned, sources.original
        priority_header, caller = source.terms.priority, planned.admitted.authenticated.caller
        priority = caller.priority if priority_header is None else read_priority(priority_header, caller)
        serving = Serving(sources, meta, context, attempted, priority)
        plan, was_cancelled = planned.plan, False
        try:
            response: OutboundResponse | OutboundStream | None = None
            groups: list[TargetGroup] = []
            only_target = plan.targets[0] if len(plan.targets) == 1 else None
            if only_target is not None and only_target.max_concurrency is None and plan.names[0] in attempted.reserved_models:
                # As nearly always. No coroutine stands between this one and the target's: each would cost all that wait below it.
                runs = (self._run(plan, only_target, plan.names[0], plan.variant),)
                response = await self._targets.serve_target(serving, runs[0], runs)
                if response is None and serving.failures.refusal is None:
                    response = await self._targets.serve_model(serving, runs, is_first_round=False)
            else:
                groups = order_targets(attempted, sources.marked_state)
            if response is None:
                response = await self._serve_groups(serving, groups)
            return await _give_up(serving) if response is None else response
        except asyncio.CancelledError:
            was_cancelled = True
            raise
        finally:
            # However it ends: faults that are not settled would count neither for an endpoint nor against it.
            if attempted.faults is not None:
                attempted.faults.settle(was_cancelled=was_cancelled)

    async def resume(
        self, error: UpstreamError, sources: ProviderSources, attempted: Attempted, meta: ResponseMeta, context: RequestContext
    ) -> OutboundStream | None:
        """The rest of a stream that broke off with this error, from another endpoint or target. None: nobody can go on with it."""
        stream, served, call, progress = sources.original.terms.resumable, attempted.served, attempted.call, attempted.progress
        if stream is None or served is None or call is None or not (stream.may_resume and error.retry_elsewhere):
            return None
        if context.disconnected or len(attempted.attempts) >= MAX_ATTEMPTS:
            return None
        try:
            continuing = await sources.continue_text(stream.prefix(), stream.tokens_in_all)
        except NarthexError:  # what the first engine read without our help
            continuing = None
        if continuing is None:
            return None
        self._fleet.record_failure(call.endpoint, call.model, error, team_id=attempted.planned.admitted.caller.team_id)
        broken = discard_broken(attempted, served, call, error)
        resumed_at = len(stream.text())
        stream.break_off()
        await call.release()
        first_token_us = progress.first_token_us
        try:
            rest = await self.serve(continuing, attempted, meta, context)
        except NarthexError as refusal:
            refusal.without_frames()
            attempted.served = broken if attempted.served is None else attempted.served
            return None
        finally:
            progress.first_token_us = first_token_us
        assert isinstance(rest, OutboundStream)
        attempted.served = attempted.attempts[-1] = replace(attempted.attempts[-1], resumed_at=resumed_at)
        return rest

    async def _serve_groups(self, serving: Serving, remaining: list[TargetGroup]) -> OutboundResponse | OutboundStream | None:
        """Tries the models of the plan, each when its turn has come: see find_next(). None: none has served."""
        attempted, planned, failures = serving.attempted, serving.attempted.planned, serving.failures
        plan = planned.plan
        while (position := find_next(remaining, plan, failures)) is not None:
            group = remaining.pop(position)
            if plan.function is not None and group.variant != attempted.variant and group.variant is not None:
                try:
                    await _use_variant(serving, group.variant)
                except NarthexError as refusal:  # its templates may not take what those of the first do
                    failures.add(Rank.UNSUPPORTED, refusal)
                    continue
            if group.model not in attempted.reserved_models:
                try:
                    await self._reserve_fallback(planned, group.model, serving.context)
                except (LimitExceeded, Unavailable) as refusal:  # another fallback may have room
                    failures.add(Rank.LIMITED, refusal)
                    continue
                attempted.reserved_models.add(group.model)
            if plan.function is None:
                attempted.variant = group.variant
            runs = [self._run(plan, target, group.model, group.variant) for target in group.targets]
            response = await self._targets.serve_model(serving, runs)
            if response is not None:
                return response
        return None

    def _run(self, plan: Plan, target: Target, model_name: str, variant_name: str | None) -> TargetRun:
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
        return TargetRun(target, model_name, self._settings.retries if retries is None else retries, timeouts, model.hedge is not None)

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


async def _use_variant(serving: Serving, variant: str) -> None:
    """Gives targets the request of this variant from now on.

    Raises NarthexError if its templates refuse it.
    """
    of_variant, attempted = serving.sources.of_variant, serving.attempted
    assert of_variant is not None
    serving.sources = await of_variant(variant)
    attempted.variant = variant
    admitted, request = attempted.planned.admitted, serving.sources.original.request
    if serving.meta.request_body is admitted.request.body:
        serving.meta = replace(serving.meta, request_body=request.body)
    admitted.request = request


async def _give_up(serving: Serving) -> OutboundResponse:
    """Raises the failure that tells the caller most. Returns an estimate for a request to count tokens that no target can count."""
    attempted, source = serving.attempted, serving.sources.original
    error = serving.failures.most_useful(source.request.model)
    if isinstance(error, OperationNotSupported) and source.terms.dialect.name == AnthropicCountTokens.name:
        serving.context.stage = attempted
        attempted.emulation = Emulation(("input_tokens",))
        return estimate_response(source.request.input_tokens)
    if isinstance(error, Unsupported):
        raise await name_other_models(error, source, attempted.planned)
    raise error
