"""Authenticated -> Admitted: the body is a request of the caller's dialect; its episode, its tags, and what else it asks for."""

from collections.abc import Mapping

from app.domain.callers import Caller
from app.domain.episode_names import RecordedEpisode
from app.gateway.large_body.request_body import RequestBody
from app.gateway.large_body.request_size import OverCap
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.parsed_request import ParsedRequest
from app.gateway.request.caller_options import droppable_fields, pinned_variant, read_caller_options
from app.gateway.request.field_letters import check_letters
from app.gateway.request.gateway_options import NO_OPTIONS, read_options
from app.gateway.request.other_api_body import OtherApiRequest, read_other_api
from app.gateway.request.request_headers import request_tags, resolve_episode
from app.gateway.request.reserved_fields import NO_FUNCTION_FIELDS, function_fields, remove_fields, reported_names, reserved_fields
from app.gateway.responses_state.summaries import open_summaries
from app.gateway.routing.implied_model import find_implied_model
from app.gateway.routing.named_models import check_named_models
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Admitted, Authenticated
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialect import CallerDialect, InboundRequest
from providers.dialects.openai_responses import has_context_items
from providers.dialects.tensorzero_inference import TensorZeroInference


async def parse(
    gateway: Gateway,
    dialect: CallerDialect,
    raw: bytes,
    headers: Mapping[bytes, bytes],
    context: RequestContext,
    authenticated: Authenticated,
) -> ParsedRequest:
    """Raises NarthexError for what is no request that this caller may make."""
    caller = authenticated.caller
    body = RequestBody(raw, gateway.large_requests, caller.team_id)
    of_other_api: OtherApiRequest | None = None
    try:
        request = await body.parse_large(dialect) if body.is_large else dialect.parse_request(raw)
    except OverCap:
        raise
    except InvalidRequest as refusal:
        of_other_api = await body.run(read_other_api, dialect, body.raw, refusal, droppable_fields(headers))
        request, body.raw = of_other_api.request, of_other_api.raw
    if request.names_no_model:
        request.model = find_implied_model(gateway.snapshot_cache.snapshot, gateway.fleet, caller, dialect, request.body)
    check_letters(request.body)
    if caller.models is not None:
        await body.run(check_named_models, gateway.snapshot_cache.snapshot, caller, request.body)
    reserved, of_function, fields = reserved_fields(request.body), NO_FUNCTION_FIELDS, NO_OPTIONS
    if reserved:
        of_function, credential_headers = function_fields(request.body), gateway.fleet.table.caller_credential_headers
        request, fields = await body.run(read_options, dialect, request, reserved, credential_headers)
        request, body.raw = await body.run(remove_fields, request, body.raw, reserved)
        headers = {**headers, **fields.headers}
    sent_body, continued = request.body, None
    if request.previous_response_id is not None or request.references_items:
        sent_body = Body(sent_body)
        continued = await _add_history(gateway, context, caller, request, body)
    if request.has_summaries or sent_body is not request.body:
        sent_body = Body(sent_body) if sent_body is request.body else sent_body
        await body.run(open_summaries, request.body, gateway.summaries, caller.team_id)
        request.has_context_items = has_context_items(request.body)
    episode = resolve_episode(request, headers, gateway.episode_ids, caller.team_id, context.received_us, continued)
    admitted = context.stage = Admitted(authenticated, request, episode, request_tags(request, headers, fields.namespace))
    if reserved:
        admitted.reserved_fields = reported_names(fields.reported)
    if of_other_api is not None:
        admitted.reserved_fields = [*admitted.reserved_fields, *of_other_api.dropped]
        admitted.read_as = of_other_api.report
    options = read_caller_options(headers, request.body, is_stream=request.stream)
    cost_fields = ("narthex_cost_usd",) if options.wants_cost else ()
    variant = of_function.variant
    if request.dialect == TensorZeroInference.name:
        variant = request.body.value("variant_name") or variant
        cost_fields = ("cost", *cost_fields)
    if options.variant is not None:
        variant = pinned_variant(options.variant, variant)
    return ParsedRequest(admitted, dialect, headers, body, options, variant, of_function.input, sent_body, cost_fields)


async def _add_history(
    gateway: Gateway, context: RequestContext, caller: Caller, request: InboundRequest, body: RequestBody
) -> RecordedEpisode | None:
    """Put the history of its conversation before what the request says. Returns the episode of the response that it continues."""
    claim = context.claim_body(gateway.body_memory, caller)
    continued = await gateway.conversations.expand_request(request, caller, claim)
    body.grow(claim.size_bytes)
    return continued
