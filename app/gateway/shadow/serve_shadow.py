"""One shadow, top to bottom: as app/gateway/pipeline/serve.py answers a request, without a caller.

It has limits, a record and a charge of its own: those of the team that owns the shadow. Nothing is kept that a caller could continue, and
no tools run at the host.
"""

from collections.abc import Mapping
from typing import NamedTuple

import httpx2
from msgspec.structs import replace

from app.domain.exchange import Origin, ShadowRecord
from app.domain.snapshot import Plan
from app.gateway.attempts.reasoning_state import ProviderSources, find_marked_state
from app.gateway.large_body.body_size import SMALL_BYTES, is_slow_to_record
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.usage_amounts import UsageEstimate
from app.gateway.media.fetcher import ClaimBytes
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.relay import record_response
from app.gateway.pipeline.translate import drop_rules
from app.gateway.request.caller_options import read_caller_options
from app.gateway.request_translation.source_request import CallerTerms, SourceRequest
from app.gateway.routing.function_variants import write_variant
from app.gateway.routing.plan import order_targets
from app.gateway.shadow.choice import DropReason, config_of
from app.gateway.shadow.comparison import are_same
from app.gateway.shadow.draft import ShadowDraft, ShadowDropped, paying_caller
from app.gateway.state.charges import estimate_usage
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Admitted, Attempted, Authenticated, Planned
from app.gateway.upstream.outbound_stream import OutboundStream
from app.recording.spool.spool import SpoolFull
from providers.canonical.chat import ChatRequest, HostTool
from providers.canonical.errors import InvalidRequest, LimitExceeded, NarthexError, Unavailable, UpstreamError, WorkTooLarge
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

# All shadows take turns as one team where teams do, so that they hold up none.
_TEAM = "shadows"
# Fields with which a host searches, runs code or calls servers, beside its tools.
_FIELDS_WITH_EFFECTS = ("web_search_options", "mcp_servers", "container", "plugins")
_BOUNDS: Mapping[str, DropReason] = {"max_concurrent": "concurrency", "per_minute": "rate", "usd_per_day": "budget"}


class _NoCaller:
    """There is none who could leave."""

    disconnected = False


class _Repetition(NamedTuple):
    """The request as it is sent again: what is planned of it, its body, and whether it holds no earlier response."""

    plan: Plan
    request: InboundRequest
    raw: bytes
    is_first_turn: bool


async def serve_shadow(gateway: Gateway, draft: ShadowDraft, claim_bytes: ClaimBytes) -> None:
    """Whatever an engine says of it is recorded. `claim_bytes` takes the memory for fetched media.

    Raises ShadowDropped if the request is not answered again.
    """
    context = RequestContext(draft.dialect.name, _NoCaller())
    context.origin = Origin("shadow", draft.id)
    large_requests = gateway.large_requests.of_team(_TEAM)
    try:
        repetition = await _repeat(gateway, draft, large_requests)
        planned = await _reserve(gateway, draft, context, repetition, large_requests)
        try:
            await _answer(gateway, draft, context, planned, repetition, large_requests, claim_bytes)
        except NarthexError as error:
            context.set_failure(error.status, error.without_frames(), error.message)
            planned.spool_record.append_response(draft.dialect.write_error(error))
            gateway.finish_exchange(context, "failed")
    finally:
        gateway.finish_exchange(context, "aborted")
        await context.release()


async def _repeat(gateway: Gateway, draft: ShadowDraft, large_requests: TeamLargeRequests) -> _Repetition:
    """Raises ShadowDropped."""
    planned, config = draft.planned, draft.config
    if config_of(gateway.snapshot_cache.snapshot, draft.name) != config:
        raise ShadowDropped("changed")
    snapshot, unit = planned.plan.snapshot, f"{planned.admitted.caller.team_id}/{planned.admitted.episode.id}".encode()
    if planned.function_request is None:
        request, raw = replace(planned.admitted.request, model=config.to), draft.upstream_raw
        targets = order_targets(snapshot.models[config.to].targets, config.to, unit)
        plan = Plan(config.to, config.to, targets, (config.to,) * len(targets), snapshot)
    else:
        try:
            request, raw = await write_variant(large_requests, planned.function_request, config.to, draft.size_bytes)
        except (InvalidRequest, WorkTooLarge):
            raise ShadowDropped("invalid") from None
        model = snapshot.functions[draft.name].variants[config.to].model
        targets = order_targets(snapshot.models[model].targets, model, unit)
        names, variants = (model,) * len(targets), (config.to,) * len(targets)
        plan = Plan(planned.plan.model, model, targets, names, snapshot, draft.name, config.to, variants)
    try:
        chat = await large_requests.run_if_large(len(raw), CALLER_CHAT_DIALECTS[draft.dialect.name].read_request, request.body)
    except InvalidRequest:  # its own host understood it: what it may do elsewhere is not known
        raise ShadowDropped("side_effects") from None
    if request.overrides is not None or _has_effects(chat, request.body):
        raise ShadowDropped("side_effects")
    if request.body.value("store"):
        body = Body(request.body)
        del body["store"]
        request, raw = replace(request, body=body), await large_requests.run_if_large(len(raw), body.write)
    request = replace(request, stores_response=False)
    return _Repetition(plan, request, raw, all(message.role != "assistant" for message in chat.messages))


def _has_effects(chat: ChatRequest, body: Body) -> bool:
    return any(isinstance(tool, HostTool) for tool in chat.tools) or any(body.has_value(field) for field in _FIELDS_WITH_EFFECTS)


async def _reserve(
    gateway: Gateway, draft: ShadowDraft, context: RequestContext, repetition: _Repetition, large_requests: TeamLargeRequests
) -> Planned:
    """Raises ShadowDropped."""
    try:
        gateway.spool.check_space()
    except SpoolFull:
        raise ShadowDropped("spool") from None
    original, plan = draft.planned, repetition.plan
    sender, caller = original.admitted.caller, paying_caller(draft)
    admitted = Admitted(Authenticated(caller), repetition.request, original.admitted.episode, original.admitted.tags)
    estimate = estimate_usage(repetition.request, plan, gateway.settings.limits_output_tokens, context.received_us / 1e6)
    record = gateway.spool.open(context.id, caller.content, caller.mask)
    reservation = await _take(gateway, draft, context, plan, estimate)
    link = ShadowRecord(draft.name, sender.team_id, repetition.is_first_turn)
    planned = context.stage = Planned(
        admitted, plan, reservation, record, estimate.output_tokens, original.endpoint_table, original.matcher, shadow=link
    )
    if is_slow_to_record(draft.raw, is_masked=False):
        await record.append_large_request(draft.raw, large_requests)
    else:
        record.append_request(draft.raw)
    return planned


async def _take(gateway: Gateway, draft: ShadowDraft, context: RequestContext, plan: Plan, estimate: UsageEstimate) -> Reservation | None:
    """Raises ShadowDropped."""
    try:
        return await gateway.limits.reserve(context.id, paying_caller(draft), plan.name, {}, estimate, draft.planned.matcher)
    except LimitExceeded as refusal:
        if refusal.code == "no_price":
            raise ShadowDropped("no_price") from None
        own: dict[str, DropReason] = {f"shadow/{draft.name}/{bound}": reason for bound, reason in _BOUNDS.items()}
        rule = None if refusal.details is None else refusal.details.get("rule")
        raise ShadowDropped(own.get(str(rule), "limit")) from None
    except Unavailable:
        raise ShadowDropped("limits_unavailable") from None


async def _answer(
    gateway: Gateway,
    draft: ShadowDraft,
    context: RequestContext,
    planned: Planned,
    repetition: _Repetition,
    large_requests: TeamLargeRequests,
    claim_bytes: ClaimBytes,
) -> None:
    """Raises NarthexError."""
    request, raw, headers, original = repetition.request, repetition.raw, draft.headers, draft.planned
    constraint = await gateway.checks.check_request(request, _TEAM)
    options = read_caller_options(headers, request.body, is_stream=request.stream)
    may_drop, operator_drops = drop_rules(options, planned)
    terms = CallerTerms(
        draft.dialect,
        gateway.media,
        may_drop,
        betas=headers.get(b"anthropic-beta", b""),
        max_repairs=options.max_repairs,
        headers=headers,
        # Of whoever wrote it: prefix caches of engines are not shared with the team that pays.
        team_id=original.admitted.caller.team_id,
        session=options.session,
        priority=options.priority,
        wants_explanation=options.wants_explanation,
        refuses_unvalidated=options.refuses_unvalidated,
        claim_bytes=claim_bytes,
        team_salts=gateway.team_salts,
        operator_drops=operator_drops,
    )
    source = SourceRequest(terms, request, raw, constraint=constraint, inference_id=context.id, large_requests=large_requests.for_body(raw))
    meta = ResponseMeta(
        context.id,
        planned.admitted.episode.id,
        request.model,
        context.received_us // 1_000_000,
        request.wants_usage,
        request.body,
        estimated_input=request.input_tokens,
    )
    sources = ProviderSources(source, find_marked_state(source), None)
    attempted = Attempted.begin(planned, context.progress)
    response = await gateway.attempts.serve(sources, attempted, meta, context)
    context.status = 200
    if isinstance(response, OutboundStream):
        written = await _read_stream(gateway, draft, response, attempted)
    else:
        written = await _read_response(gateway, response, attempted)
    exchange = context.prepared = context.prepare_record(attempted)  # before the comparison, which takes its time
    await context.release()
    link = planned.shadow
    if link is not None and exchange.outcome == "answered" and draft.response.outcome == "answered":
        is_same = await _compare(draft, written, large_requests)
        context.prepared = replace(exchange, shadow=replace(link, is_same=is_same))
    gateway.finish_exchange(context, "answered")


async def _read_response(gateway: Gateway, response: OutboundResponse, attempted: Attempted) -> bytes:
    progress = attempted.progress
    progress.usage, progress.finish_reason, progress.model = response.usage, response.finish_reason, response.model
    progress.written_tokens = text_tokens(len(response.raw)) if response.written_tokens is None else response.written_tokens
    await record_response(gateway, attempted.planned, response.raw)
    return response.raw


async def _read_stream(gateway: Gateway, draft: ShadowDraft, response: OutboundStream, attempted: Attempted) -> bytes:
    """Reads the whole stream, and returns it as far as it may be the same as the original's.

    Raises UpstreamError.
    """
    editor, planned, call = response.editor, attempted.planned, attempted.call
    assert call is not None
    attempted.progress.editor = editor
    kept, left = [response.first], _max_compared_bytes(draft)
    await record_response(gateway, planned, response.first)
    try:
        if not editor.done and editor.failure is None:
            async for block in response.blocks:
                data = editor.feed(block)
                if data:
                    await record_response(gateway, planned, data)
                    if left >= 0:  # the block that exceeds it is kept, so that the response is known to be longer
                        kept.append(data)
                    left -= len(data)
                if editor.done or editor.failure is not None:
                    break
        last = editor.finish()
    except httpx2.TransportError as fault:
        error = call.connection_error(fault)
        call.explain(error)
        raise error from None
    except UpstreamError as error:
        call.explain(error)
        raise
    attempted.progress.usage, attempted.progress.finish_reason = editor.usage, editor.finish_reason
    await record_response(gateway, planned, last)
    return b"".join((*kept, last))


def _max_compared_bytes(draft: ShadowDraft) -> int:
    """Returns the size up to which a response is compared.

    One that is longer by far than the original's is not the same.
    """
    expected = draft.response.response()
    return 0 if expected is None else 2 * len(expected) + SMALL_BYTES


async def _compare(draft: ShadowDraft, written: bytes, large_requests: TeamLargeRequests) -> bool | None:
    expected = draft.response.response()
    if expected is None:
        return None
    if len(written) > _max_compared_bytes(draft):
        return False
    route, streamed = draft.dialect.name, draft.planned.admitted.request.stream
    return await large_requests.run_if_large(len(written) + len(expected), are_same, route, expected, written, streamed=streamed)
