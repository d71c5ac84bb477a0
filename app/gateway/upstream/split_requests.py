"""SplitRequests: a request that is sent in parts, whose responses become one."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator

import httpx2
from msgspec.structs import replace

from app.gateway.emulation.response_trimmer import ResponseTrimmer, trim_response
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import RequestPart, TranslatedRequest
from app.gateway.response_translation import translate
from app.gateway.response_translation.dialect_pair import chat_dialects
from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.write_response import check_finished, write_response
from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from app.gateway.upstream.body import content_kind, read_body
from app.gateway.upstream.call import PartCall, UpstreamCall
from app.gateway.upstream.checked_responses import CheckedResponses
from app.gateway.upstream.engine_requests import EngineRequests
from app.gateway.upstream.merged_responses import MergedEvents, MergedStream, merge_embeddings
from app.gateway.upstream.outbound_stream import OutboundStream, begin_stream, no_blocks
from app.gateway.upstream.progress import ResponseProgress
from providers.canonical.errors import InvalidUpstreamResponse, UpstreamError
from providers.canonical.events import Event, ResponseAssembler, UsageReported, response_events
from providers.canonical.model_names import read_model_name
from providers.canonical.slow_numbers import check_response_numbers
from providers.credentials import CredentialError
from providers.dialect import EngineDialect, OutboundResponse, ResponseMeta
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

# How many of the parts run at once, and the bytes of their bodies.
_MAX_PARTS_AT_ONCE = 8
_PART_BYTES_AT_ONCE = 4_000_000


class SplitRequests:
    """Sends parts, several at once. All their responses together may have `max_bytes`."""

    def __init__(self, engines: EngineRequests, checked: CheckedResponses, max_bytes: int) -> None:
        self._engines = engines
        self._checked = checked
        self._max_bytes = max_bytes

    async def send(
        self,
        call: UpstreamCall,
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """The responses to the parts of a request as one. Raises UpstreamError if one of them fails."""
        concurrency = max(1, min(_MAX_PARTS_AT_ONCE, _PART_BYTES_AT_ONCE // (len(translated.raw) + 1)))
        call.part_count = len(translated.parts)
        meta = replace(meta, estimated_input=sum(part.input_tokens for part in translated.parts))
        if source.terms.dialect.name not in CALLER_CHAT_DIALECTS:
            return await self._send_embedding_parts(call, translated, source, meta, concurrency)
        caller_dialect, engine_dialect = chat_dialects(source.terms.dialect, translated.dialect)
        received = _ReceivedBytes(self._max_bytes)
        sources = [functools.partial(self._part_events, call, part, engine_dialect, received) for part in translated.parts]
        merged, emulation = MergedEvents(sources, concurrency), translated.response_editing
        call.close_on_release(merged.close)
        if source.request.stream and not translated.is_checked:
            editor = MergedStream(caller_dialect, meta, None if emulation is None else ResponseTrimmer(emulation, len(sources)))
            return await begin_stream(editor.blocks(aiter(merged)), editor, progress, call.endpoint.provider.configured_as)
        assembler, counter = ResponseAssembler(), WrittenTokenCounter()
        async for event in merged:
            assembler.feed(event)
            counter.observe(event)
            progress.written_tokens = counter.tokens
        response = check_finished(assembler.finish())
        progress.usage, progress.model = response.usage, read_model_name(response.model)
        if emulation is not None:
            response = trim_response(response, emulation)
        if translated.is_checked:
            response = await self._checked.check(response, translated, source, progress)
        if not source.request.stream:
            return write_response(response, caller_dialect, meta)
        progress.mark_first_token()
        streamer = ResponseStreamer(caller_dialect, engine_dialect, meta)
        return OutboundStream(streamer.stream_response(response), streamer, no_blocks())

    async def _part_events(
        self,
        call: UpstreamCall,
        request: RequestPart,
        engine_dialect: EngineDialect,
        received: "_ReceivedBytes",
    ) -> AsyncGenerator[Event]:
        """The events of the response to one part. Raises UpstreamError."""
        translated = await request.make()
        async with _send_part(call, translated, request.input_tokens) as part:
            counter = WrittenTokenCounter()
            async for event in self._read_part(call, part, translated, engine_dialect, received):
                if isinstance(event, UsageReported):
                    part.usage = event.usage
                counter.observe(event)
                part.written_tokens = counter.tokens
                yield event
            part.has_finished = True

    async def _read_part(
        self, call: UpstreamCall, part: PartCall, translated: TranslatedRequest, engine_dialect: EngineDialect, received: "_ReceivedBytes"
    ) -> AsyncGenerator[Event]:
        response = await self._engines.send(part, translated)
        call.note_part(part)
        blocks, coding = await self._engines.open_body(part, response, translated)
        if blocks is None:
            raw = await read_body(response, received.left, coding)
            received.add(raw)
            check_response_numbers([raw])
            for event in response_events(check_finished(engine_dialect.read_response(raw))):
                yield event
            return
        reader = engine_dialect.stream_reader()
        async for block in blocks:
            received.add(block)
            for event in reader.feed(block):
                yield event
            if reader.done:
                break
        for event in reader.finish():
            yield event

    async def _send_embedding_parts(
        self, call: UpstreamCall, translated: TranslatedRequest, source: SourceRequest, meta: ResponseMeta, concurrency: int
    ) -> OutboundResponse:
        received, turns = _ReceivedBytes(self._max_bytes), asyncio.Semaphore(concurrency)

        async def send(request: RequestPart) -> OutboundResponse:
            async with turns:
                part_of = await request.make()
                part_meta = replace(meta, estimated_input=request.input_tokens)
                async with _send_part(call, part_of, request.input_tokens) as part:
                    response = await self._engines.send(part, part_of)
                    call.note_part(part)
                    raw = await read_body(response, received.left, content_kind(response, False)[1])
                    received.add(raw)
                    check_response_numbers([raw])
                    answered = translate.translate_response(raw, source.terms.dialect, part_of.dialect, part_meta, response.headers)
                    part.usage, part.has_finished = answered.usage, True
                    return answered

        tasks = [asyncio.ensure_future(send(part)) for part in translated.parts]
        try:
            return merge_embeddings(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def _send_part(call: UpstreamCall, translated: TranslatedRequest, input_tokens: int) -> AsyncGenerator[PartCall]:
    """The call of a part, released at the end. Raises UpstreamError, which names the request, for what fails meanwhile."""
    part = call.for_part(translated.id, input_tokens)
    try:
        try:
            yield part
        except CredentialError as fault:
            raise part.credential_error(fault) from None
        except httpx2.TransportError as fault:
            raise part.connection_error(fault) from None
    except UpstreamError as error:
        call.note_failed_part(part, error)
        raise
    finally:
        await part.release()


class _ReceivedBytes:
    """A count of the bytes that the responses to all parts of a request may still take together."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self._limit = limit

    def add(self, block: bytes) -> None:
        """Raises InvalidUpstreamResponse over the limit."""
        self.left -= len(block)
        if self.left < 0:
            raise InvalidUpstreamResponse(f"The engine's answers are larger than {self._limit} bytes together.")
