"""The road of one request, top to bottom. READ THIS FIRST.

1  api/        who asks (app/api/inference_route.py has done this before it calls serve)
2  open        the bytes are an ask of the caller's dialect: checked, and read no further than the road needs
3  plan        the name asked for becomes targets in order
4  limits      what it will need is taken from every rule about it, or it is refused
5  attempt     targets are tried until one serves
6  translate   the engine's answer becomes the caller's: same dialect, an edit of the bytes; another, through its meaning
8  relay       each block goes on at once; what ends the answer only when the exchange is in the spool
9  the Door    (app/api/inference_route.py again) ends whatever is left, however it ended
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import httpx
import msgspec

from app import uuid7
from app.domain import Caller, Outcome
from app.gateway.attempts import Attempts
from app.gateway.billing import actual_usage, estimate_usage
from app.gateway.context import RequestContext
from app.gateway.fleet.fleet import Fleet
from app.gateway.idempotency.idempotency import KEY_HEADER, Idempotency
from app.gateway.limits.limits import Limits
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.plan import check_episode, plan
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.responses_state.conversations import ConversationStore
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.client import OutboundStream
from app.recording.spool import Spool, SpoolFull
from app.settings import Settings
from app.store.idempotent_responses import StoredResponse
from app.store.snapshot_cache import SnapshotCache
from app.telemetry import Telemetry
from providers.canonical.errors import InvalidRequest, Unavailable, UpstreamError
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import Dialect, InboundRequest, ResponseMeta

_MAX_TAGS = 64
_MAX_TAG_CHARS = 512
# How long an engine may take to end a stream whose last frame it has sent, before its connection is given up instead of kept.
_END_OF_STREAM_S = 0.25


class ResponseSink(Protocol):
    """Where the answer goes; the API's side of it knows headers and frames of ASGI."""

    async def send_response(self, body: bytes) -> None: ...

    async def replay(self, stored_response: StoredResponse) -> None: ...

    async def begin_stream(self, first: bytes) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def end_stream(self, last: bytes) -> None: ...


class Gateway:
    """The parts that every request needs, put together once (app/main.py)."""

    def __init__(
        self,
        settings: Settings,
        snapshot_cache: SnapshotCache,
        fleet: Fleet,
        limits: Limits,
        transport: httpx.AsyncBaseTransport,
        spool: Spool,
        telemetry: Telemetry,
        idempotency: Idempotency,
        media: MediaFetcher,
        conversations: ConversationStore,
        checks: ConstraintChecks,
    ) -> None:
        self.settings = settings
        self.snapshot_cache = snapshot_cache
        self.fleet = fleet
        self.limits = limits
        self.attempts = Attempts(settings, fleet, limits, checks, transport)
        self.spool = spool
        self.telemetry = telemetry
        self.idempotency = idempotency
        self.media = media
        self.conversations = conversations
        self.checks = checks
        self.draining = False

    def finish_exchange(self, context: RequestContext, outcome: Outcome) -> None:
        """Records the exchange, counts it, and settles what it holds of limits. Once: a second time does nothing."""
        exchange = context.write_record(outcome)
        if exchange is not None:
            self.telemetry.count_exchange(exchange)
        reservation = context.reservation
        if reservation is None or reservation.settled:
            return
        if exchange is None or not context.attempts:  # no engine was asked
            self.limits.cancel(reservation)
        else:
            self.limits.settle(reservation, actual_usage(exchange))


async def serve(
    gateway: Gateway,
    dialect: Dialect,
    raw: bytes,
    headers: Mapping[bytes, bytes],
    context: RequestContext,
    sink: ResponseSink,
    reauthenticate: Callable[[], Awaitable[Caller]],
) -> None:
    """Answers one request. Raises a NarthexError while nothing has been sent; after that the error is told in the stream.

    `admit` asks once more who asks, for a request that has waited: its key may be good no longer.
    """
    assert context.caller is not None
    key = headers.get(KEY_HEADER)
    if key is not None:
        claim_or_response = await gateway.idempotency.begin(key, headers, context.caller, context.route, raw, context.id)
        context.claim = None if isinstance(claim_or_response, StoredResponse) else claim_or_response
        context.caller = await reauthenticate()
        if isinstance(claim_or_response, StoredResponse):
            context.adopt_replayed(claim_or_response)
            gateway.telemetry.count_replay(context.route)
            await sink.replay(claim_or_response)
            return
    request = context.request = dialect.parse_request(raw)
    original_body = request.body
    if request.previous_response_id is not None or request.references_items:
        original_body = Body(request.body)
        await gateway.conversations.expand_request(request, context.caller)
    context.episode_id = _resolve_episode_id(request, headers, context)
    context.tags = request_tags(request, headers)
    try:
        gateway.spool.admit()
    except SpoolFull as full:
        raise Unavailable(str(full), retry_after_s=5) from None
    planned = context.plan = plan(gateway.snapshot_cache.snapshot, context.caller, request.model, context.id)
    constraint = await gateway.checks.check_request(request, context.caller.key_id)
    estimate = estimate_usage(request, planned, gateway.settings.limits_output_tokens, context.received_us / 1e6)
    context.reservation = await gateway.limits.reserve(context.id, context.caller, planned.name, context.tags, estimate)
    opened = gateway.spool.open(context.id, context.caller.content)
    opened.append_request(raw)
    spool_record = context.spool_record = opened if context.claim is None else context.claim.capture(opened)
    meta = ResponseMeta(context.id, context.episode_id, request.model, context.received_us // 1_000_000, request.wants_usage, original_body)
    betas = headers.get(b"anthropic-beta", b"")
    translator = RequestTranslator(
        request, raw, dialect, gateway.media, _drop_predicate(headers), betas, constraint, context.id, _max_repairs(headers), headers
    )
    response = await gateway.attempts.serve(translator, planned, meta, context)

    context.status = 200
    if isinstance(response, OutboundStream):
        await _relay(gateway, dialect, response, raw, context, sink)
    else:
        await context.release()
        context.usage, context.finish_reason = response.usage, response.finish_reason
        context.written_tokens = text_tokens(len(response.raw))
        spool_record.append_response(response.raw)
        await _commit_exchange(gateway, context)
        if request.stores_response:
            await gateway.conversations.store_response(context.id, context.caller, raw, response.raw)
        await sink.send_response(response.raw)


async def _relay(
    gateway: Gateway, dialect: Dialect, response: OutboundStream, raw: bytes, context: RequestContext, sink: ResponseSink
) -> None:
    """Sends each block on as it comes. The last frames wait until the exchange is kept."""
    editor, spool_record = response.editor, context.spool_record
    context.editor = editor
    assert spool_record is not None
    spool_record.append_response(response.first)
    await sink.begin_stream(response.first)
    try:
        if not editor.done and editor.failure is None:
            async for block in response.blocks:
                data = editor.feed(block)
                if data:
                    spool_record.append_response(data)
                    await sink.send(data)
                if editor.done or editor.failure is not None:
                    break
        last = editor.finish()
    except UpstreamError as error:
        gateway.attempts.mask_error(error, context)
        context.set_failure(200, type(error).__name__, error.message)
        last = dialect.write_error_frame(error)
    except httpx.TransportError as fault:
        error = gateway.attempts.connection_error(fault, context)
        context.set_failure(200, type(error).__name__, error.message)
        last = dialect.write_error_frame(error)
    context.usage, context.finish_reason = editor.usage, editor.finish_reason
    spool_record.append_response(last)
    await _commit_exchange(gateway, context)
    if context.request is not None and context.request.stores_response and context.caller is not None:
        await gateway.conversations.store_response(context.id, context.caller, raw, last)
    await sink.end_stream(last)
    # Whatever is wrong from here on: the caller has its answer whole, and a word more would be taken for the next one's.
    with contextlib.suppress(TimeoutError, httpx.TransportError, UpstreamError):
        async with asyncio.timeout(_END_OF_STREAM_S):
            async for _ in response.blocks:
                pass


async def _commit_exchange(gateway: Gateway, context: RequestContext) -> None:
    """Promise 2: what a caller has in full is recorded. So this comes before the last byte."""
    claim = context.claim
    if claim is not None:
        await claim.confirm()
    gateway.finish_exchange(context, "answered")
    await gateway.spool.wait_until_durable()
    if claim is not None:
        await claim.complete()


def _resolve_episode_id(request: InboundRequest, headers: Mapping[bytes, bytes], context: RequestContext) -> str:
    header_value = headers.get(b"x-narthex-episode-id")
    header_episode_id = None if header_value is None else header_value.decode("latin-1")
    if header_episode_id is not None and request.episode_id and header_episode_id.lower() != request.episode_id.lower():
        raise InvalidRequest("The body's `episode_id` and the header x-narthex-episode-id name two episodes.", param="episode_id")
    episode_id = request.episode_id or header_episode_id
    if episode_id is None:
        return uuid7.mint(context.received_us)
    return check_episode(episode_id, time.time() * 1000)


def request_tags(request: InboundRequest | None, headers: Mapping[bytes, bytes]) -> Mapping[str, str]:
    """The header's tags, else the body's. Bounded: they are looked up, counted and stored."""
    header_value = headers.get(b"x-narthex-tags")
    if header_value is None:
        tags: Mapping[str, str] = {} if request is None else request.tags
    else:
        try:
            tags = msgspec.json.decode(header_value, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise InvalidRequest(f"The header x-narthex-tags must be a JSON object of strings: {fault}.") from None
    if tags and (len(tags) > _MAX_TAGS or any(len(key) > _MAX_TAG_CHARS or len(value) > _MAX_TAG_CHARS for key, value in tags.items())):
        raise InvalidRequest(
            f"At most {_MAX_TAGS} tags (or metadata) of at most {_MAX_TAG_CHARS} characters each can be kept.", param="metadata"
        )
    return tags


def _drop_predicate(headers: Mapping[bytes, bytes]) -> Callable[[str], bool]:
    """What the caller lets go where a target cannot honour it: `x-narthex-drop: all`, or names of fields."""
    header_value = headers.get(b"x-narthex-drop")
    if header_value is None:
        return _drop_nothing
    named = {name.strip() for name in header_value.decode("latin-1").split(",")}
    return lambda field: "all" in named or field in named


def _max_repairs(headers: Mapping[bytes, bytes]) -> int:
    """How often the caller lets an answer that does not obey be asked for again."""
    header_value = headers.get(b"x-narthex-guided-retries")
    if header_value is None:
        return 0
    if header_value not in (b"0", b"1", b"2", b"3"):
        raise InvalidRequest("The header x-narthex-guided-retries may be 0, 1, 2 or 3.")
    return int(header_value)


def _drop_nothing(field: str) -> bool:
    return False
