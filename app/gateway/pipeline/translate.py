"""The parts that lead from Planned to Attempted: the source of all translations of the request, and what responses say of it."""

import functools
from collections.abc import Callable

from app.gateway.attempts.reasoning_state import ProviderSources, find_marked_state
from app.gateway.fleet.operator_drops import OperatorDrops, extend_may_drop
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.parsed_request import ParsedRequest
from app.gateway.request.caller_options import CallerOptions
from app.gateway.request_translation.source_request import CallerTerms, SourceRequest
from app.gateway.response_translation.resumable_stream import ResumableStream
from app.gateway.routing.function_variants import write_variant
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Planned
from providers.dialect import InboundRequest, ResponseMeta
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, RAW_PROMPT_DIALECTS


def sources_of(gateway: Gateway, parsed: ParsedRequest, planned: Planned, context: RequestContext) -> ProviderSources:
    """Returns the source request for each provider, and for each variant of its function."""
    caller, request, options = parsed.admitted.caller, parsed.admitted.request, parsed.options
    may_drop, operator_drops = drop_rules(options, planned)
    terms = CallerTerms(
        parsed.dialect,
        gateway.media,
        may_drop,
        betas=parsed.headers.get(b"anthropic-beta", b""),
        max_repairs=options.max_repairs,
        headers=parsed.headers,
        team_id=caller.team_id,
        session=options.session,
        priority=options.priority,
        wants_explanation=options.wants_explanation,
        refuses_unvalidated=options.refuses_unvalidated,
        claim_bytes=lambda size_bytes: context.claim_body(gateway.body_memory, caller).add(size_bytes),
        team_salts=gateway.team_salts,
        summaries=gateway.summaries,
        operator_drops=operator_drops,
        resumable=_resumable_stream(parsed, request) if options.resumes and request.stream else None,
    )
    source = SourceRequest(
        terms,
        request,
        planned.upstream_raw,
        constraint=planned.constraint,
        inference_id=context.id,
        large_requests=parsed.body.beside_loop,
    )
    of_variant = None
    if planned.function_request is not None:
        of_variant = functools.partial(_write_variant, gateway, parsed, planned, source)
    return ProviderSources(source, find_marked_state(source), of_variant)


def meta_of(parsed: ParsedRequest, context: RequestContext) -> ResponseMeta:
    admitted = parsed.admitted
    return ResponseMeta(
        context.id,
        admitted.episode.id,
        admitted.request.model,
        context.received_us // 1_000_000,
        admitted.request.wants_usage or bool(parsed.cost_fields),
        parsed.sent_body,
        estimated_input=admitted.request.input_tokens,
    )


def drop_rules(options: CallerOptions, planned: Planned) -> tuple[Callable[[str], bool], OperatorDrops | None]:
    """Whether the caller, or its key, lets a field be dropped; and what the operator allows besides."""
    may_drop, of_key = options.may_drop, planned.admitted.caller.drop
    operator_drops = planned.endpoint_table.operator_drops
    if operator_drops is not None or of_key:
        if options.overrides_operator_drops:
            operator_drops = None
        elif of_key:
            may_drop = extend_may_drop(may_drop, [of_key])
    return may_drop, operator_drops


async def _write_variant(gateway: Gateway, parsed: ParsedRequest, planned: Planned, source: SourceRequest, variant: str) -> ProviderSources:
    """The source requests as another variant makes them. Raises NarthexError."""
    function_request, caller = planned.function_request, planned.admitted.caller
    assert function_request is not None
    request, raw = await write_variant(parsed.body.large_requests, function_request, variant, function_request.size_bytes)
    constraint = await gateway.checks.check_request(request, caller.team_id)
    of_variant = functools.partial(_write_variant, gateway, parsed, planned, source)
    source = source.with_request(request, raw, constraint)
    return ProviderSources(source, find_marked_state(source), of_variant)


def _resumable_stream(parsed: ParsedRequest, request: InboundRequest) -> ResumableStream | None:
    """Returns a stream that another engine can resume, or None if the response is no stream of a chat."""
    chat_dialect = CALLER_CHAT_DIALECTS.get(parsed.dialect.name)
    if chat_dialect is None:
        return None
    return ResumableStream(chat_dialect, continues_prompt=request.raw_prompt or chat_dialect.name in RAW_PROMPT_DIALECTS)
