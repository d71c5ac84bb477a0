"""One inference request, top to bottom. READ THIS FIRST.

    authenticate   app/api/inference_route.py, before it calls serve()                        -> Authenticated
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
    finish         app/api/inference_route.py again: whatever ended otherwise is recorded and settled, and the engine released

The names on the right are stages (stages.py): whatever ends the request finds there what it has to undo.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import httpx
from msgspec import Raw
from msgspec.structs import replace

from app.background_tasks import BackgroundTask, finish_despite_cancellation
from app.billing.cost import format_usd
from app.domain import Caller, Outcome
from app.episode_names import RecordedEpisode
from app.gateway.attempts import Attempts
from app.gateway.charges import actual_usage, estimate_highest_cost, estimate_usage
from app.gateway.context import RequestContext
from app.gateway.episodes.episode_id import Episode, EpisodeIds
from app.gateway.feedback.intake import FeedbackIntake
from app.gateway.feedback.sent import SentFeedback
from app.gateway.field_letters import check_letters
from app.gateway.fleet.fleet import Fleet
from app.gateway.fleet.operator_drops import OperatorDrops, extend_may_drop
from app.gateway.function_variants import write_variant
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.functions.function_table import FunctionTable
from app.gateway.gateway_options import NO_OPTIONS, read_options
from app.gateway.idempotency.idempotency import KEY_HEADER, Idempotency
from app.gateway.implied_model import find_implied_model
from app.gateway.keep_alives import KeepAlives
from app.gateway.large_body.large_requests import LARGE_BYTES, SMALL_BYTES, LargeRequests, is_large
from app.gateway.large_body.masked_stream import MaskedStream
from app.gateway.limits.limits import Limits
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.limits.usage_amounts import UsageEstimate
from app.gateway.load_shedding import LoadShedder
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.memory.body_memory import BodyClaim, BodyMemory
from app.gateway.named_models import check_named_models
from app.gateway.other_api_body import OtherApiRequest, read_other_api
from app.gateway.plan import plan, without_fallbacks
from app.gateway.reasoning_state import ProviderTranslators, find_marked_state, marker_for
from app.gateway.refusals import RefusalRecorder
from app.gateway.request_headers import (
    droppable_fields,
    max_repairs,
    overrides_operator_drops,
    pinned_variant,
    refuses_unvalidated,
    request_tags,
    resolve_episode,
    wants_cost,
    wants_resumption,
)
from app.gateway.request_translation.team_salts import TeamSalts
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.reserved_fields import (
    FUNCTION_FIELDS,
    NO_FUNCTION_FIELDS,
    VARIANT_FIELDS,
    function_fields,
    remove_fields,
    reported_names,
    reserved_fields,
)
from app.gateway.response_translation.resumable_stream import ResumableStream
from app.gateway.responses_state.conversations import ConversationStore
from app.gateway.stages import Admitted, Attempted, Authenticated, Planned, Replayed
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.target_queues import TargetQueues
from app.gateway.upstream.client import OutboundStream
from app.recording.spool import Spool, SpoolFull
from app.settings import Settings
from app.store.idempotent_responses import StoredResponse
from app.store.snapshot_cache import SnapshotCache
from app.telemetry import Telemetry
from providers.canonical.errors import InvalidRequest, Unavailable, UpstreamError
from providers.canonical.raw_json import Body
from providers.canonical.stream_usage import add_to_last_usage, add_to_usage
from providers.canonical.token_estimate import text_tokens
from providers.dialect import CallerDialect, InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, RAW_PROMPT_DIALECTS
from providers.dialects.tensorzero_inference import TensorZeroInference
from providers.structured_output import Constraint
from providers.transport.transport import Transport

# How long an engine may take to end a stream after its last frame, before its connection is closed instead of reused.
_END_OF_STREAM_S = 0.25


class ResponseSink(Protocol):
    """Where the response goes; app/api/response_sink.py writes it as HTTP."""

    async def send_response(self, body: bytes) -> None: ...

    async def replay(self, stored_response: StoredResponse) -> None: ...

    async def begin_stream(self, first: bytes) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def end_stream(self, last: bytes) -> None: ...

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        """See app.gateway.keep_alives.WatchedStream."""
        ...


class Shadows(Protocol):
    """Answers a share of requests again, for comparison; see app/gateway/shadow/queue.py. Nothing here waits or raises."""

    def draw(
        self,
        context: RequestContext,
        dialect: CallerDialect,
        planned: Planned,
        raw: bytes,
        upstream_raw: bytes,
        headers: Mapping[bytes, bytes],
    ) -> None:
        """Decides whether this request is one of them, which is then answered again once it has ended."""
        ...

    def cancel(self) -> None: ...

    async def stop(self) -> None: ...


class Gateway:
    """The parts that every request needs, put together once (app/main.py)."""

    def __init__(
        self,
        settings: Settings,
        snapshot_cache: SnapshotCache,
        fleet: Fleet,
        limits: Limits,
        transport: Transport,
        spool: Spool,
        telemetry: Telemetry,
        idempotency: Idempotency,
        media: MediaFetcher,
        conversations: ConversationStore,
        checks: ConstraintChecks,
        body_memory: BodyMemory,
        large_requests: LargeRequests,
        refusals: RefusalRecorder,
        create_shadows: "Callable[[Gateway], Shadows]",
        sent_feedback: SentFeedback,
    ) -> None:
        self.settings = settings
        self.snapshot_cache = snapshot_cache
        self.fleet = fleet
        self.limits = limits
        self.transport = transport
        self.target_queues = TargetQueues(settings, limits)
        self.attempts = Attempts(settings, fleet, limits, checks, transport, large_requests, self.target_queues)
        self.spool = spool
        self.telemetry = telemetry
        self.idempotency = idempotency
        self.media = media
        self.conversations = conversations
        self.checks = checks
        self.body_memory = body_memory
        self.large_requests = large_requests
        self.refusals = refusals
        self.team_salts = TeamSalts(settings.secret_key.parsed)
        self.episode_ids = EpisodeIds(settings.secret_key.parsed)
        self.function_table = FunctionTable()
        self.feedback = FeedbackIntake(settings, snapshot_cache, spool, self.episode_ids, large_requests, telemetry, sent_feedback)
        self.load_shedder = LoadShedder(settings)
        self.keep_alives = KeepAlives(settings)
        self.shadows = create_shadows(self)
        self.draining = False
        self.background_tasks: list[BackgroundTask] = [
            *snapshot_cache.background_tasks,
            *fleet.background_tasks,
            *limits.background_tasks,
            *idempotency.background_tasks,
            refusals.task,
            self.load_shedder.task,
            self.keep_alives.task,
        ]

    def finish_exchange(self, context: RequestContext, outcome: Outcome) -> None:
        """Records the exchange, counts it, and settles its reservation. Once: a second call does nothing."""
        planned = context.planned
        if planned is None:
            return
        exchange = context.write_record(planned, outcome)
        if exchange is not None:
            if exchange.shadow is None:
                self.telemetry.count_exchange(exchange)
            else:
                self.telemetry.count_shadow(exchange.shadow.name, exchange)
        reservation = planned.reservation
        if reservation is None or reservation.settled:
            return
        if exchange is None or not isinstance(context.stage, Attempted):  # no engine was called
            self.limits.cancel(reservation)
        else:
            self.limits.settle(reservation, actual_usage(exchange))


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
        history_claim = _body_claim(gateway, context, authenticated.caller)
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
    planned, constraint, upstream_raw = await _plan(gateway, dialect, raw, context, admitted, variant, of_function.input)
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
        functools.partial(_claim_bytes, gateway, context, authenticated.caller),
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
    of_variant = None if planned.function_request is None else functools.partial(_translate_variant, gateway, planned, translator)
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
            await _relay_stream(gateway, dialect, response, raw, context, attempted, sink, translators, meta, cost_fields, masked)
        else:
            mark = _marker(attempted)
            if mark is not None:
                response = replace(response, raw=await _mark_state(gateway, attempted.planned, mark, response.raw))
            await _send_response(gateway, response, raw, context, attempted, sink, cost_fields)
    finally:
        if is_watched:
            del gateway.keep_alives.streams[sink]
        if masked is not None:
            await masked.stop()


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


def _recorded(episode: Episode) -> RecordedEpisode:
    return RecordedEpisode(episode.id, episode.name)


def _resumable_stream(dialect: CallerDialect, request: InboundRequest, headers: Mapping[bytes, bytes]) -> ResumableStream | None:
    """None: the response is no stream of a chat, or need not be resumed. Raises InvalidRequest."""
    if not wants_resumption(headers) or not request.stream:
        return None
    chat_dialect = CALLER_CHAT_DIALECTS.get(dialect.name)
    if chat_dialect is None:
        return None
    return ResumableStream(chat_dialect, continues_prompt=request.raw_prompt or chat_dialect.name in RAW_PROMPT_DIALECTS)


def _body_claim(gateway: Gateway, context: RequestContext, caller: Caller) -> BodyClaim:
    """The claim to memory that the request has, or a new one."""
    if context.body_claim is None:
        context.body_claim = gateway.body_memory.claim(caller)
    return context.body_claim


def _claim_bytes(gateway: Gateway, context: RequestContext, caller: Caller, size_bytes: int) -> None:
    _body_claim(gateway, context, caller).add(size_bytes)


async def _plan(
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
        request, upstream_raw = await _write_variant(gateway, function_request, targets.variant, caller, size_bytes)
        admitted.request = request
        _claim_bytes(gateway, context, caller, max(0, len(upstream_raw) - len(raw)))
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


async def _write_variant(
    gateway: Gateway, function_request: FunctionRequest, variant: str, caller: Caller, size_bytes: int
) -> tuple[InboundRequest, bytes]:
    return await write_variant(gateway.large_requests.of_team(caller.team_id), function_request, variant, size_bytes)


async def _translate_variant(gateway: Gateway, planned: Planned, translator: RequestTranslator, variant: str) -> ProviderTranslators:
    """The translators of the request that another variant makes. Raises NarthexError."""
    function_request, caller = planned.function_request, planned.admitted.caller
    assert function_request is not None
    request, raw = await _write_variant(gateway, function_request, variant, caller, function_request.size_bytes)
    constraint = await gateway.checks.check_request(request, caller.team_id)
    of_variant = functools.partial(_translate_variant, gateway, planned, translator)
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


async def _send_response(
    gateway: Gateway,
    response: OutboundResponse,
    raw: bytes,
    context: RequestContext,
    attempted: Attempted,
    sink: ResponseSink,
    cost_fields: tuple[str, ...],
) -> None:
    progress, admitted = attempted.progress, attempted.planned.admitted
    progress.usage, progress.finish_reason, progress.model = response.usage, response.finish_reason, response.model
    progress.written_tokens = text_tokens(len(response.raw)) if response.written_tokens is None else response.written_tokens
    await context.release()
    if cost_fields:
        response = replace(response, raw=await _add_cost(gateway, context, attempted, response.raw, add_to_usage, cost_fields))
    await record_response(gateway, attempted.planned, response.raw)
    await _commit_exchange(gateway, context, admitted)
    if admitted.request.stores_response:
        await gateway.conversations.store_response(context.id, admitted.caller, _recorded(admitted.episode), raw, response.raw)
    await sink.send_response(response.raw)


async def _relay_stream(
    gateway: Gateway,
    dialect: CallerDialect,
    response: OutboundStream,
    raw: bytes,
    context: RequestContext,
    attempted: Attempted,
    sink: ResponseSink,
    translators: ProviderTranslators,
    meta: ResponseMeta,
    cost_fields: tuple[str, ...],
    masked: MaskedStream | None,
) -> None:
    """Sends each block on as it arrives. The last frames wait until the exchange is in the spool. `masked`: see there; None: it is not."""
    editor, admitted = response.editor, attempted.planned.admitted
    attempted.progress.editor = editor
    relayed: OutboundStream | None = response
    while True:
        mark = _marker(attempted)
        first = relayed.first if mark is None else await _mark_state(gateway, attempted.planned, mark, relayed.first)
        if masked is None:
            await record_response(gateway, attempted.planned, first)
        else:
            masked.add(first)
        if relayed is response:
            await sink.begin_stream(first)
            if isinstance(editor, ResumableStream):
                editor.is_sent = True
        elif first:
            await sink.send(first)
        try:
            await _relay_blocks(relayed, attempted, sink, mark, masked)
            last = editor.finish()
            if mark is not None:
                last = await _mark_state(gateway, attempted.planned, mark, last)
            break
        except UpstreamError as fault:
            error = fault
        except httpx.TransportError as fault:
            assert attempted.call is not None
            error = attempted.call.connection_error(fault)
        assert attempted.call is not None
        attempted.call.explain(error)
        relayed = await gateway.attempts.resume(error, translators, attempted, meta, context)
        if relayed is None:
            context.set_failure(200, error, error.message)
            last = editor.write_failure(error) or dialect.write_error_frame(error)
            break
    attempted.progress.usage, attempted.progress.finish_reason = editor.usage, editor.finish_reason
    if cost_fields and relayed is not None:
        last = await _add_cost(gateway, context, attempted, last, add_to_last_usage, cost_fields)
    if masked is None:
        await record_response(gateway, attempted.planned, last)
    else:
        masked.add(last)
        await masked.record_all()
    await _commit_exchange(gateway, context, admitted)
    if admitted.request.stores_response:
        await gateway.conversations.store_response(context.id, admitted.caller, _recorded(admitted.episode), raw, last)
    await sink.end_stream(last)
    if relayed is not None:
        # The caller has the complete response: an error frame after it would be taken for a part of the next one.
        with contextlib.suppress(TimeoutError, httpx.TransportError, UpstreamError):
            async with asyncio.timeout(_END_OF_STREAM_S):
                async for _ in relayed.blocks:
                    pass


def _marker(attempted: Attempted) -> Callable[[bytes], bytes] | None:
    return None if attempted.served is None else marker_for(attempted.planned.plan, attempted.served.provider)


async def _relay_blocks(
    response: OutboundStream,
    attempted: Attempted,
    sink: ResponseSink,
    mark: Callable[[bytes], bytes] | None,
    masked: MaskedStream | None,
) -> None:
    """Until the engine ends its stream. Raises UpstreamError and httpx.TransportError."""
    editor, spool_record = response.editor, attempted.planned.spool_record
    if editor.done or editor.failure is not None:
        return
    async for block in response.blocks:
        data = editor.feed(block)
        if data:
            if mark is not None:
                data = mark(data)
            if masked is None:
                spool_record.append_response(data)
                await sink.send(data)
            else:
                masked.add(data)
                await sink.send(data)
                await masked.make_room()
        if editor.done or editor.failure is not None:
            return


async def _add_cost(
    gateway: Gateway,
    context: RequestContext,
    attempted: Attempted,
    data: bytes,
    add: Callable[[bytes, Mapping[str, Any]], bytes],
    cost_fields: tuple[str, ...],
) -> bytes:
    """A response, or the last frames of one, with the cost of the request in its usage, in US dollars; null: unknown."""
    microusd = context.prepare_record(attempted).cost_microusd
    added = dict.fromkeys(cost_fields, None if microusd is None else Raw(format_usd(microusd)))
    if len(data) > SMALL_BYTES and is_large(data):
        return await gateway.large_requests.of_team(attempted.planned.admitted.caller.team_id).run(add, data, added)
    return add(data, added)


async def _mark_state(gateway: Gateway, planned: Planned, mark: Callable[[bytes], bytes], data: bytes) -> bytes:
    if len(data) > SMALL_BYTES and is_large(data):
        return await gateway.large_requests.of_team(planned.admitted.caller.team_id).run(mark, data)
    return mark(data)


async def record_response(gateway: Gateway, planned: Planned, data: bytes) -> None:
    """Writes a part of the response to the record: beside the event loop, if it is large."""
    admitted = planned.admitted
    if len(data) > SMALL_BYTES and (is_large(data) or admitted.caller.content == "masked"):
        large_requests = gateway.large_requests.of_team(admitted.caller.team_id)
        await finish_despite_cancellation(planned.spool_record.append_large_response(data, large_requests))
    else:
        planned.spool_record.append_response(data)


async def _commit_exchange(gateway: Gateway, context: RequestContext, admitted: Admitted) -> None:
    """Comes before the last byte: whatever a caller has in full is recorded, whichever process is killed next."""
    claim = admitted.authenticated.claim
    if claim is not None:
        await claim.confirm()
    gateway.finish_exchange(context, "answered")
    await gateway.spool.wait_until_durable()
    if claim is not None:
        await claim.complete()
