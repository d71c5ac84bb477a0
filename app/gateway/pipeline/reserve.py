"""Admitted -> Planned: targets in order, what the request will use reserved against all limits, and its record begun."""

from app.domain.snapshot import Plan
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.large_body.request_body import RequestBody
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.parsed_request import ParsedRequest
from app.gateway.request.reserved_fields import FUNCTION_FIELDS, VARIANT_FIELDS
from app.gateway.routing.function_variants import write_variant
from app.gateway.routing.plan import plan, without_fallbacks
from app.gateway.state.charges import estimate_highest_cost, estimate_usage
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Planned
from app.process.background_tasks import finish_despite_cancellation
from app.recording.spool.spool import SpoolFull
from app.recording.spool.spool_record import SpoolRecord
from providers.canonical.errors import Unavailable
from providers.dialects.tensorzero_inference import TensorZeroInference


async def reserve(gateway: Gateway, parsed: ParsedRequest, context: RequestContext) -> Planned:
    """Raises NarthexError for what no target may or can answer now; then nothing is held that no stage holds."""
    try:
        gateway.spool.check_space()
    except SpoolFull as full:
        raise Unavailable(str(full), retry_after_s=5) from None
    admitted, upstream_raw, function_request = parsed.admitted, parsed.body.raw, None
    caller = admitted.caller
    # All of one configuration: nothing is awaited between these lines, and the request keeps to them when another is swapped in.
    endpoint_table, matcher, function_table = gateway.fleet.table, gateway.limits.matcher, gateway.function_table
    targets = _plan(gateway, parsed, context)
    if targets.function is not None and targets.variant is not None:
        function_request = FunctionRequest(function_table.compiled(targets), parsed.dialect, admitted.request, parsed.function_input)
        upstream_raw = await _make_request(gateway, parsed, context, function_request, targets.variant)
    elif targets.experiment_model is not None:
        admitted.reserved_fields = [name for name in admitted.reserved_fields if name not in VARIANT_FIELDS]
    received_s, unbounded_tokens = context.received_us / 1e6, gateway.settings.limits_output_tokens
    estimate = estimate_usage(admitted.request, targets, unbounded_tokens, received_s)
    if context.allowance is not None:
        highest = estimate_highest_cost(admitted.request, targets, unbounded_tokens, received_s)
        await context.allowance.reserve(context.id, highest)
    opened, claim = gateway.spool.open(context.id, caller.content, caller.mask), admitted.authenticated.claim
    record = opened if claim is None else claim.capture(opened)
    reservation = await gateway.limits.reserve(context.id, caller, targets.name, admitted.tags, estimate, matcher, targets.function)
    # A reservation that no stage holds is never settled: only these come before the stage. A request that limits refuse costs no check.
    try:
        if targets.experiment_model is not None and targets.experiment_model != targets.name:
            # And what the rules of the model that the caller named need, beyond those of the arm's.
            reservation = await gateway.limits.extend_reservation(
                reservation, context.id, caller, targets.experiment_model, admitted.tags, estimate, matcher
            )
        constraint = await gateway.checks.check_request(admitted.request, caller.team_id)
    except BaseException:
        if reservation is not None:
            gateway.limits.cancel(reservation)
        raise
    planned = context.stage = Planned(
        *(admitted, targets, reservation, record, estimate.output_tokens, endpoint_table, matcher, function_request, None),
        *(constraint, upstream_raw),
    )
    if parsed.body.is_slow_to_record(is_masked=caller.content == "masked"):
        await _record_large_request(parsed.body, opened)
    else:
        opened.append_request(parsed.body.raw)
    return planned


def _plan(gateway: Gateway, parsed: ParsedRequest, context: RequestContext) -> Plan:
    admitted, snapshot_cache = parsed.admitted, gateway.snapshot_cache
    targets = plan(
        snapshot_cache.snapshot,
        admitted.caller,
        admitted.request.model,
        admitted.episode,
        tags=admitted.tags,
        end_user=admitted.request.end_user,
        now_ms=snapshot_cache.to_postgres_ms(context.received_us),
        current_ms=snapshot_cache.current_ms,
        pinned_variant=parsed.variant,
        session=parsed.options.session,
    )
    return targets if context.origin is None or context.origin.is_awaited else without_fallbacks(targets)


async def _make_request(
    gateway: Gateway, parsed: ParsedRequest, context: RequestContext, function_request: FunctionRequest, variant: str
) -> bytes:
    """Put the request that a variant of a function makes in the place of the caller's. Returns its body."""
    admitted, raw = parsed.admitted, parsed.body.raw
    admitted.reserved_fields = [name for name in admitted.reserved_fields if name not in FUNCTION_FIELDS]
    size_bytes = len(raw) if context.body_claim is None else max(len(raw), context.body_claim.size_bytes)  # with its history
    admitted.request, upstream_raw = await write_variant(parsed.body.large_requests, function_request, variant, size_bytes)
    context.claim_body(gateway.body_memory, admitted.caller).add(max(0, len(upstream_raw) - len(raw)))
    parsed.body.grow(len(upstream_raw))
    if admitted.request.dialect == TensorZeroInference.name:  # its responses say which variant wrote them, and in which form
        parsed.sent_body = admitted.request.body
    return upstream_raw


async def _record_large_request(body: RequestBody, record: SpoolRecord) -> None:
    recording = record.append_large_request(body.raw, body.large_requests)
    # To mask a body may take long, and nothing was sent for it: that ends with its caller.
    await (recording if record.is_masked else finish_despite_cancellation(recording))
