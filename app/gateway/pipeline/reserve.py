"""Admitted -> Planned: targets in order, what the request will use reserved against all limits, and its record begun."""

import functools
from collections.abc import Callable, Mapping

from msgspec import Raw

from app.domain.callers import Caller
from app.gateway.attempts.reasoning_state import ProviderTranslators, find_marked_state
from app.gateway.fleet.operator_drops import OperatorDrops, extend_may_drop
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.large_body.large_requests import SMALL_BYTES, is_large
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.limits.usage_amounts import UsageEstimate
from app.gateway.memory.body_memory import BodyClaim
from app.gateway.pipeline.gateway import Gateway
from app.gateway.request.request_headers import droppable_fields, overrides_operator_drops
from app.gateway.request.reserved_fields import FUNCTION_FIELDS, VARIANT_FIELDS
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.routing.function_variants import write_variant
from app.gateway.routing.plan import plan, without_fallbacks
from app.gateway.state.charges import estimate_highest_cost, estimate_usage
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Admitted, Planned
from app.process.background_tasks import finish_despite_cancellation
from app.recording.spool.spool import SpoolFull
from providers.canonical.errors import Unavailable
from providers.dialect import CallerDialect, InboundRequest
from providers.structured_output import Constraint


def drop_rules(headers: Mapping[bytes, bytes], planned: Planned) -> tuple[Callable[[str], bool], OperatorDrops | None]:
    """Whether the caller, or its key, lets a field be dropped; and what the operator allows besides. Raises InvalidRequest."""
    may_drop, of_key = droppable_fields(headers), planned.admitted.caller.drop
    operator_drops = planned.endpoint_table.operator_drops
    if operator_drops is not None or of_key:
        if overrides_operator_drops(headers):
            operator_drops = None
        elif of_key:
            may_drop = extend_may_drop(may_drop, [of_key])
    return may_drop, operator_drops


def body_claim(gateway: Gateway, context: RequestContext, caller: Caller) -> BodyClaim:
    """The claim to memory that the request has, or a new one."""
    if context.body_claim is None:
        context.body_claim = gateway.body_memory.claim(caller)
    return context.body_claim


def claim_bytes(gateway: Gateway, context: RequestContext, caller: Caller, size_bytes: int) -> None:
    body_claim(gateway, context, caller).add(size_bytes)


async def plan_request(
    gateway: Gateway,
    dialect: CallerDialect,
    raw: bytes,
    context: RequestContext,
    admitted: Admitted,
    pinned: str | None,
    function_input: Raw | None,
) -> tuple[Planned, Constraint | None, bytes]:
    """The targets, the reservation and the record in the spool; the constraint on the response, None without one; the body to translate.

    `raw`: as it is recorded. `pinned`: the variant of a function that the caller demands. `function_input`: see FunctionFields.
    """
    try:
        gateway.spool.check_space()
    except SpoolFull as full:
        raise Unavailable(str(full), retry_after_s=5) from None
    request, caller = admitted.request, admitted.caller
    # All of one configuration: nothing is awaited between these lines, and the request keeps to them when another is swapped in.
    endpoint_table, matcher, function_table = gateway.fleet.table, gateway.limits.matcher, gateway.function_table
    snapshot_cache = gateway.snapshot_cache
    targets = plan(
        snapshot_cache.snapshot,
        caller,
        request.model,
        admitted.episode,
        tags=admitted.tags,
        end_user=request.end_user,
        now_ms=snapshot_cache.to_postgres_ms(context.received_us),
        current_ms=snapshot_cache.current_ms,
        pinned_variant=pinned,
    )
    if context.origin is not None:
        targets = without_fallbacks(targets)
    upstream_raw, function_request = raw, None
    if targets.function is not None and targets.variant is not None:
        function_request = FunctionRequest(function_table.compiled(targets), dialect, request, function_input)
        admitted.reserved_fields = [name for name in admitted.reserved_fields if name not in FUNCTION_FIELDS]
        size_bytes = len(raw) if context.body_claim is None else max(len(raw), context.body_claim.size_bytes)  # with its history
        request, upstream_raw = await write_variant_request(gateway, function_request, targets.variant, caller, size_bytes)
        admitted.request = request
        claim_bytes(gateway, context, caller, max(0, len(upstream_raw) - len(raw)))
    elif targets.experiment_model is not None:
        admitted.reserved_fields = [name for name in admitted.reserved_fields if name not in VARIANT_FIELDS]
    estimate = estimate_usage(request, targets, gateway.settings.limits_output_tokens, context.received_us / 1e6)
    if context.allowance is not None:
        highest = estimate_highest_cost(request, targets, gateway.settings.limits_output_tokens, context.received_us / 1e6)
        await context.allowance.reserve(context.id, highest)
    opened, claim = gateway.spool.open(context.id, caller.content, caller.mask), admitted.authenticated.claim
    record = opened if claim is None else claim.capture(opened)
    reservation = await gateway.limits.reserve(context.id, caller, targets.name, admitted.tags, estimate, matcher, targets.function)
    if targets.experiment_model is not None and targets.experiment_model != targets.name:
        reservation = await _reserve_for(gateway, context, caller, targets.experiment_model, admitted.tags, estimate, matcher, reservation)
    # A reservation that no stage holds is never settled: only this comes before the stage. A request that limits refuse costs no check.
    try:
        constraint = await gateway.checks.check_request(request, caller.team_id)
    except BaseException:
        if reservation is not None:
            gateway.limits.cancel(reservation)
        raise
    planned = context.stage = Planned(
        admitted, targets, reservation, record, estimate.output_tokens, endpoint_table, matcher, function_request
    )
    if len(raw) > SMALL_BYTES and (opened.is_masked or is_large(raw)):
        large_requests = gateway.large_requests.of_team(caller.team_id)
        recording = opened.append_large_request(raw, large_requests)
        # To mask a body may take long, and nothing was sent for it: that ends with its caller.
        await (recording if opened.is_masked else finish_despite_cancellation(recording))
    else:
        opened.append_request(raw)
    return planned, constraint, upstream_raw


async def write_variant_request(
    gateway: Gateway, function_request: FunctionRequest, variant: str, caller: Caller, size_bytes: int
) -> tuple[InboundRequest, bytes]:
    return await write_variant(gateway.large_requests.of_team(caller.team_id), function_request, variant, size_bytes)


async def translate_variant(gateway: Gateway, planned: Planned, translator: RequestTranslator, variant: str) -> ProviderTranslators:
    """The translators of the request that another variant makes. Raises NarthexError."""
    function_request, caller = planned.function_request, planned.admitted.caller
    assert function_request is not None
    request, raw = await write_variant_request(gateway, function_request, variant, caller, function_request.size_bytes)
    constraint = await gateway.checks.check_request(request, caller.team_id)
    of_variant = functools.partial(translate_variant, gateway, planned, translator)
    return ProviderTranslators(translator.with_request(request, raw, constraint), find_marked_state(request, raw), of_variant)


async def _reserve_for(
    gateway: Gateway,
    context: RequestContext,
    caller: Caller,
    model: str,
    tags: Mapping[str, str],
    estimate: UsageEstimate,
    matcher: RuleMatcher,
    reservation: Reservation | None,
) -> Reservation | None:
    """The reservation with what the rules of the model that the caller named need, beyond those of the arm's. Raises as reserve() does."""
    try:
        return await gateway.limits.extend_reservation(reservation, context.id, caller, model, tags, estimate, matcher)
    except BaseException:
        if reservation is not None:
            gateway.limits.cancel(reservation)
        raise
