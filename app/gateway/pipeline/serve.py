"""One inference request, top to bottom. READ THIS FIRST.

    authenticate   app/api/callers/inference_route.py, before it calls serve()                        -> Authenticated
    replay         an Idempotency-Key that was answered before gets that response again       -> Replayed
    parse          the body is a request of the caller's dialect; its episode and its tags    -> Admitted
    plan           the model's name becomes targets in order
    reserve        what the request will use is reserved against all limits that apply;
                   a constraint on the response is checked                                    -> Planned
    attempt        targets are tried until one serves                                         -> Attempted
    translate      the engine's response becomes the caller's: same dialect, an edit of the
                   bytes; another dialect, through the canonical model
    relay          each block is sent on at once, except the last
    commit         recorded in the spool, counted and settled, before the last bytes are sent
    finish         app/api/callers/inference_route.py again: whatever ended otherwise is recorded and settled, and the engine released

The names on the right are stages (stages.py): whatever ends the request finds there what it has to undo.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from app.domain.callers import Caller
from app.domain.episode_names import RecordedEpisode
from app.gateway.attempts.reasoning_state import ProviderTranslators, find_marked_state
from app.gateway.idempotency.idempotency import KEY_HEADER
from app.gateway.large_body.large_requests import LARGE_BYTES, SMALL_BYTES, is_large
from app.gateway.large_body.masked_stream import MaskedStream
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.relay import ResponseSink, mark_state, relay_stream, send_response, state_marker
from app.gateway.pipeline.reserve import body_claim, claim_bytes, drop_rules, plan_request, translate_variant
from app.gateway.request.field_letters import check_letters
from app.gateway.request.gateway_options import NO_OPTIONS, read_options
from app.gateway.request.other_api_body import OtherApiRequest, read_other_api
from app.gateway.request.request_headers import (
    droppable_fields,
    max_repairs,
    pinned_variant,
    refuses_unvalidated,
    request_tags,
    resolve_episode,
    wants_cost,
    wants_resumption,
)
from app.gateway.request.reserved_fields import NO_FUNCTION_FIELDS, function_fields, remove_fields, reported_names, reserved_fields
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.response_translation.resumable_stream import ResumableStream
from app.gateway.routing.implied_model import find_implied_model
from app.gateway.routing.named_models import check_named_models
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Admitted, Authenticated, Replayed
from app.gateway.upstream.client import OutboundStream
from app.store.redis.idempotent_responses import StoredResponse
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialect import CallerDialect, InboundRequest, ResponseMeta
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, RAW_PROMPT_DIALECTS
from providers.dialects.tensorzero_inference import TensorZeroInference


async def serve(
    gateway: Gateway,
    dialect: CallerDialect,
    raw: bytes,
    headers: Mapping[bytes, bytes],
    context: RequestContext,
    sink: ResponseSink,
    reauthenticate: Callable[[], Awaitable[Caller]],
) -> None:
    """Answers one request. Raises NarthexError while nothing has been sent; after that the stream ends with the error.

    Nothing but keep-alives, that is: behind those, too, targets are tried, and what fails is raised.

    `reauthenticate`: for a request that has waited, because its key may have been revoked meanwhile.
    """
    authenticated = context.stage
    assert isinstance(authenticated, Authenticated)
    key = headers.get(KEY_HEADER)
    if key is not None:
        credential_headers = gateway.fleet.table.caller_credential_headers
        begun = await gateway.idempotency.begin(key, headers, authenticated.caller, context.route, raw, context.id, credential_headers)
        if isinstance(begun, StoredResponse):
            context.stage = Replayed(Authenticated(await reauthenticate()), begun)
            gateway.telemetry.count_replay(context.route)
            context.status = begun.status
            await sink.replay(begun)
            return
        authenticated.claim = begun
        authenticated.caller = await reauthenticate()
    is_work_large = len(raw) > SMALL_BYTES and is_large(raw)
    of_other_api: OtherApiRequest | None = None
    try:
        if is_work_large:
            request = await gateway.large_requests.of_team(authenticated.caller.team_id).parse(dialect, raw)
        else:
            request = dialect.parse_request(raw)
    except InvalidRequest as refusal:
        arguments = dialect, raw, refusal, droppable_fields(headers)
        if is_work_large:
            of_other_api = await gateway.large_requests.of_team(authenticated.caller.team_id).run(read_other_api, *arguments)
        else:
            of_other_api = read_other_api(*arguments)
        request, raw = of_other_api.request, of_other_api.raw
    if request.names_no_model:
        request.model = find_implied_model(gateway.snapshot_cache.snapshot, gateway.fleet, authenticated.caller, dialect, request.body)
    check_letters(request.body)
    if authenticated.caller.models is not None:
        named = check_named_models, gateway.snapshot_cache.snapshot, authenticated.caller, request.body
        if is_work_large:
            await gateway.large_requests.of_team(authenticated.caller.team_id).run(*named)
        else:
            check_named_models(*named[1:])
    reserved = reserved_fields(request.body)
    of_function, options = NO_FUNCTION_FIELDS, NO_OPTIONS
    if reserved:
        of_function = function_fields(request.body)
        credential_headers = gateway.fleet.table.caller_credential_headers
        if is_work_large:
            large_requests = gateway.large_requests.of_team(authenticated.caller.team_id)
            request, options = await large_requests.run(read_options, dialect, request, reserved, credential_headers)
            request, raw = await large_requests.run(remove_fields, request, raw, reserved)
        else:
            request, options = read_options(dialect, request, reserved, credential_headers)
            request, raw = remove_fields(request, raw, reserved)
        headers = {**headers, **options.headers}
    sent_body = request.body
    continued_episode: RecordedEpisode | None = None
    if request.previous_response_id is not None or request.references_items:
        sent_body = Body(request.body)
        history_claim = body_claim(gateway, context, authenticated.caller)
        continued_episode = await gateway.conversations.expand_request(request, authenticated.caller, history_claim)
        is_work_large = is_work_large or history_claim.size_bytes > LARGE_BYTES
    team_id = authenticated.caller.team_id
    episode = resolve_episode(request, headers, gateway.episode_ids, team_id, context.received_us, continued_episode)
    admitted = context.stage = Admitted(authenticated, request, episode, request_tags(request, headers, options.namespace))
    if reserved:
        admitted.reserved_fields = reported_names(options.reported)
    if of_other_api is not None:
        admitted.reserved_fields = [*admitted.reserved_fields, *of_other_api.dropped]
        admitted.read_as = of_other_api.report
    cost_fields = ("narthex_cost_usd",) if request.stream and wants_cost(headers) else ()
    variant = of_function.variant
    if request.dialect == TensorZeroInference.name:
        variant = request.body.value("variant_name") or variant
        cost_fields = ("cost", *cost_fields)
    variant = pinned_variant(headers, variant)
    planned, constraint, upstream_raw = await plan_request(gateway, dialect, raw, context, admitted, variant, of_function.input)
    if planned.plan.snapshot.shadow_teams and context.origin is None:
        gateway.shadows.draw(context, dialect, planned, raw, upstream_raw, headers)
    if planned.function_request is not None:
        request, is_work_large = admitted.request, is_work_large or len(upstream_raw) > LARGE_BYTES
        if request.dialect == TensorZeroInference.name:  # its responses say which variant wrote them, and in which form
            sent_body = request.body
    may_drop, operator_drops = drop_rules(headers, planned)
    translator = RequestTranslator(
        request,
        upstream_raw,
        dialect,
        gateway.media,
        may_drop,
        headers.get(b"anthropic-beta", b""),
        constraint,
        context.id,
        max_repairs(headers),
        headers,
        authenticated.caller.team_id,
        refuses_unvalidated(headers),
        functools.partial(claim_bytes, gateway, context, authenticated.caller),
        gateway.large_requests.of_team(authenticated.caller.team_id) if is_work_large else None,
        gateway.team_salts,
        operator_drops,
        _resumable_stream(dialect, request, headers),
    )
    meta = ResponseMeta(
        context.id,
        episode.id,
        request.model,
        context.received_us // 1_000_000,
        request.wants_usage or bool(cost_fields),
        sent_body,
        estimated_input=request.input_tokens,
    )
    of_variant = None if planned.function_request is None else functools.partial(translate_variant, gateway, planned, translator)
    translators = ProviderTranslators(translator, find_marked_state(request, upstream_raw), of_variant)
    is_watched = request.stream and context.origin is None and gateway.keep_alives.longest_s > 0
    if is_watched:
        gateway.keep_alives.streams[sink] = dialect, meta
    masked: MaskedStream | None = None
    if authenticated.caller.content == "masked":
        masked = MaskedStream(planned.spool_record, gateway.large_requests.of_team(authenticated.caller.team_id))
    try:
        response, attempted = await gateway.attempts.serve(translators, planned, meta, context)
        context.status = 200
        if isinstance(response, OutboundStream):
            await relay_stream(gateway, dialect, response, raw, context, attempted, sink, translators, meta, cost_fields, masked)
        else:
            mark = state_marker(attempted)
            if mark is not None:
                response = replace(response, raw=await mark_state(gateway, attempted.planned, mark, response.raw))
            await send_response(gateway, response, raw, context, attempted, sink, cost_fields)
    finally:
        if is_watched:
            del gateway.keep_alives.streams[sink]
        if masked is not None:
            await masked.stop()


def _resumable_stream(dialect: CallerDialect, request: InboundRequest, headers: Mapping[bytes, bytes]) -> ResumableStream | None:
    """None: the response is no stream of a chat, or need not be resumed. Raises InvalidRequest."""
    if not wants_resumption(headers) or not request.stream:
        return None
    chat_dialect = CALLER_CHAT_DIALECTS.get(dialect.name)
    if chat_dialect is None:
        return None
    return ResumableStream(chat_dialect, continues_prompt=request.raw_prompt or chat_dialect.name in RAW_PROMPT_DIALECTS)
