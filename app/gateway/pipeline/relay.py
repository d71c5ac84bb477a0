"""Attempted -> the caller: each block is sent on at once, but the last, which waits until the exchange is in the spool."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import httpx2
from msgspec import Raw

from app.billing.cost import format_usd
from app.domain.episode_names import RecordedEpisode
from app.gateway.attempts.reasoning_state import ProviderSources, marker_for
from app.gateway.large_body.body_size import is_slow_to_record
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.masked_stream import MaskedStream
from app.gateway.pipeline.parsed_request import ParsedRequest
from app.gateway.response_translation.resumable_stream import ResumableStream
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Attempted, ExchangeRecord, Planned
from app.gateway.upstream.outbound_stream import OutboundStream
from app.process.background_tasks import finish_despite_cancellation
from app.store.redis.idempotent_responses import StoredResponse
from providers.canonical.errors import UpstreamError
from providers.canonical.stream_usage import add_to_last_usage, add_to_usage
from providers.canonical.token_estimate import text_tokens
from providers.dialect import CallerDialect, OutboundResponse, ResponseMeta, StreamEditor
from providers.transport.response_stream import ResponseStream

# How long an engine may take to end a stream after its last frame, before its connection is closed instead of reused.
_END_OF_STREAM_S = 0.25


class ResponseSink(Protocol):
    """A place where the response goes; app/api/callers/response_sink.py writes it as HTTP."""

    async def send_response(self, body: bytes) -> None: ...

    async def replay(self, stored_response: StoredResponse) -> None: ...

    async def begin_stream(self, first: bytes) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def end_stream(self, last: bytes) -> None: ...

    def relay_at_once(self, blocks: ResponseStream, editor: StreamEditor, record: ExchangeRecord) -> None:
        """Lets what the editor makes of the blocks be recorded and sent as they arrive, where nothing has to be waited for."""
        ...

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        """See app.gateway.pipeline.keep_alives.WatchedStream."""
        ...


async def send_response(
    gateway: Gateway, parsed: ParsedRequest, response: OutboundResponse, context: RequestContext, attempted: Attempted, sink: ResponseSink
) -> None:
    mark, raw, planned = _state_marker(attempted), response.raw, attempted.planned
    if mark is not None:
        raw = await _mark_state(gateway, planned, mark, raw)
    progress = attempted.progress
    progress.usage, progress.finish_reason, progress.model = response.usage, response.finish_reason, response.model
    progress.written_tokens = text_tokens(len(raw)) if response.written_tokens is None else response.written_tokens
    await context.release()
    if parsed.cost_fields:
        raw = await _add_cost(gateway, context, attempted, raw, add_to_usage, parsed.cost_fields)
    await record_response(gateway, planned, raw)
    await _commit_exchange(gateway, parsed, context, raw)
    await sink.send_response(raw)


async def relay_stream(
    gateway: Gateway,
    parsed: ParsedRequest,
    response: OutboundStream,
    context: RequestContext,
    attempted: Attempted,
    sink: ResponseSink,
    sources: ProviderSources,
    meta: ResponseMeta,
    masked: MaskedStream | None,
) -> None:
    """Sends each block on as it arrives. The last frames wait until the exchange is in the spool. `masked` None: it is not masked."""
    editor = response.editor
    attempted.progress.editor = editor
    relayed: OutboundStream | None = response
    while True:
        mark = _state_marker(attempted)
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
        except httpx2.TransportError as fault:
            assert attempted.call is not None
            error = attempted.call.connection_error(fault)
        assert attempted.call is not None
        attempted.call.explain(error)
        relayed = await gateway.attempts.resume(error, sources, attempted, meta, context)
        if relayed is None:
            context.set_failure(200, error, error.message)
            last = editor.write_failure(error) or parsed.dialect.write_error_frame(error)
            break
    attempted.progress.usage, attempted.progress.finish_reason = editor.usage, editor.finish_reason
    if parsed.cost_fields and relayed is not None:
        last = await _add_cost(gateway, context, attempted, last, add_to_last_usage, parsed.cost_fields)
    if masked is None:
        await record_response(gateway, attempted.planned, last)
    else:
        masked.add(last)
        await masked.record_all()
    await _commit_exchange(gateway, parsed, context, last)
    await sink.end_stream(last)
    if relayed is not None and not (isinstance(relayed.blocks, ResponseStream) and relayed.blocks.response.complete):
        # The caller has the complete response: an error frame after it would be taken for a part of the next one.
        with contextlib.suppress(TimeoutError, httpx2.TransportError, UpstreamError):
            async with asyncio.timeout(_END_OF_STREAM_S):
                async for _ in relayed.blocks:
                    pass


def _state_marker(attempted: Attempted) -> Callable[[bytes], bytes] | None:
    plan, served = attempted.planned.plan, attempted.served
    return None if served is None or len(plan.targets) == 1 else marker_for(plan, served.provider)


async def _relay_blocks(
    response: OutboundStream,
    attempted: Attempted,
    sink: ResponseSink,
    mark: Callable[[bytes], bytes] | None,
    masked: MaskedStream | None,
) -> None:
    """Relays blocks until the engine ends its stream. Raises UpstreamError and httpx2.TransportError."""
    editor, spool_record = response.editor, attempted.planned.spool_record
    if editor.done or editor.failure is not None:
        return
    if mark is None and masked is None and isinstance(response.blocks, ResponseStream):
        sink.relay_at_once(response.blocks, editor, spool_record)
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
    large_requests = gateway.large_requests.of_team(attempted.planned.admitted.caller.team_id)
    return await large_requests.run_on_body(data, add, data, added)


async def _mark_state(gateway: Gateway, planned: Planned, mark: Callable[[bytes], bytes], data: bytes) -> bytes:
    return await gateway.large_requests.of_team(planned.admitted.caller.team_id).run_on_body(data, mark, data)


async def record_response(gateway: Gateway, planned: Planned, data: bytes) -> None:
    """Writes a part of the response to the record: beside the event loop, if it is large."""
    admitted = planned.admitted
    if is_slow_to_record(data, is_masked=admitted.caller.content == "masked"):
        large_requests = gateway.large_requests.of_team(admitted.caller.team_id)
        await finish_despite_cancellation(planned.spool_record.append_large_response(data, large_requests))
    else:
        planned.spool_record.append_response(data)


async def _commit_exchange(gateway: Gateway, parsed: ParsedRequest, context: RequestContext, last: bytes) -> None:
    """Comes before the last byte: whatever a caller has in full is recorded, whichever process is killed next. `last` is what it sends."""
    admitted = parsed.admitted
    claim = admitted.authenticated.claim
    if claim is not None:
        await claim.confirm()
    gateway.finish_exchange(context, "answered")
    await gateway.spool.wait_until_durable()
    if claim is not None:
        await claim.complete()
    if admitted.request.stores_response:
        episode = RecordedEpisode(admitted.episode.id, admitted.episode.name)
        await gateway.conversations.store_response(context.id, admitted.caller, episode, parsed.body.raw, last)
