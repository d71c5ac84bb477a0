"""One inference request, top to bottom. READ THIS FIRST.

    authenticate   app/api/callers/inference_route.py, before it calls serve()                 -> Authenticated
    replay         an Idempotency-Key that was answered before gets that response again, and
                   the request ends (app/gateway/idempotency)                                  -> Replayed
    parse          the body is a request of the caller's dialect; its episode and its tags
                   (parse.py)                                                                  -> Admitted
    reserve        the model's name becomes targets in order, and what the request will use is
                   reserved against all limits that apply; a constraint on the response is
                   checked, and the record is begun (reserve.py)                               -> Planned
    attempt        targets are tried until one serves; the engine's response becomes the
                   caller's: same dialect, an edit of the bytes; another dialect, through the
                   canonical model (translate.py, app/gateway/attempts/attempts.py)            -> Attempted
    relay          each block is sent on at once, except the last, which waits until the
                   exchange is recorded in the spool, counted and settled (relay.py)
    finish         app/api/callers/inference_route.py again: whatever ended otherwise is
                   recorded and settled, and the engine released

The names on the right are stages (app/gateway/state/stages.py): whatever ends the request finds there what it has to undo. On the way a
share of requests is answered again, unseen (gateway.shadows), and streams that are silent get keep-alives. `context.origin` is None for
callers' requests: others are the gateway's own, such as replays of recorded ones, or somebody's in the playground.
"""

from collections.abc import Awaitable, Callable, Mapping

from app.domain.callers import Caller
from app.gateway.idempotency.idempotency import KEY_HEADER
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.masked_stream import MaskedStream
from app.gateway.pipeline.parse import parse
from app.gateway.pipeline.relay import ResponseSink, relay_stream, send_response
from app.gateway.pipeline.reserve import reserve
from app.gateway.pipeline.translate import meta_of, sources_of
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Attempted, Authenticated, Replayed
from app.gateway.upstream.outbound_stream import OutboundStream
from app.store.redis.idempotent_responses import StoredResponse
from providers.dialect import CallerDialect


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

    Nothing but keep-alives, that is: behind those, too, targets are tried, and what fails is raised. `reauthenticate` is for a request that
    has waited, because its key may have been revoked meanwhile.
    """
    authenticated = context.stage
    assert isinstance(authenticated, Authenticated)
    if KEY_HEADER in headers and await _replay(gateway, raw, headers, context, sink, authenticated, reauthenticate):
        return
    parsed = await parse(gateway, dialect, raw, headers, context, authenticated)
    planned = await reserve(gateway, parsed, context)
    if planned.plan.snapshot.shadow_teams and context.origin is None:
        gateway.shadows.draw(context, dialect, planned, parsed.body.raw, planned.upstream_raw, parsed.headers)
    sources, meta = sources_of(gateway, parsed, planned, context), meta_of(parsed, context)
    keep_alives, is_masked = gateway.keep_alives, authenticated.caller.content == "masked"
    is_awaited = context.origin is None or context.origin.is_awaited
    is_watched = parsed.admitted.request.stream and is_awaited and keep_alives.longest_s > 0
    if is_watched:
        keep_alives.streams[sink] = dialect, meta
    masked = MaskedStream(planned.spool_record, parsed.body.large_requests) if is_masked else None
    try:
        attempted = Attempted.begin(planned, context.progress)
        response = await gateway.attempts.serve(sources, attempted, meta, context)
        context.status = 200
        if isinstance(response, OutboundStream):
            await relay_stream(gateway, parsed, response, context, attempted, sink, sources, meta, masked)
        else:
            await send_response(gateway, parsed, response, context, attempted, sink)
    finally:
        if is_watched:
            del keep_alives.streams[sink]
        if masked is not None:
            await masked.stop()


async def _replay(
    gateway: Gateway,
    raw: bytes,
    headers: Mapping[bytes, bytes],
    context: RequestContext,
    sink: ResponseSink,
    authenticated: Authenticated,
    reauthenticate: Callable[[], Awaitable[Caller]],
) -> bool:
    """Whether the request was answered before, and is now again; else it has the claim to be answered."""
    credential_headers = gateway.fleet.table.caller_credential_headers
    begun = await gateway.idempotency.begin(
        headers[KEY_HEADER], headers, authenticated.caller, context.route, raw, context.id, credential_headers
    )
    if isinstance(begun, StoredResponse):
        context.stage = Replayed(Authenticated(await reauthenticate()), begun)
        gateway.telemetry.count_replay(context.route)
        context.status = begun.status
        await sink.replay(begun)
        return True
    authenticated.claim = begun
    authenticated.caller = await reauthenticate()
    return False
