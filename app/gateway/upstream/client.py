"""UpstreamClient: one request to one engine, until there is something for the caller: a response, or the beginning of a stream."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from io import BytesIO
from typing import ParamSpec, TypeVar

import httpx
from msgspec import Struct
from msgspec.structs import replace

from app.gateway.emulation.response_trimmer import ResponseTrimmer, trim_response
from app.gateway.large_body.large_requests import SMALL_BYTES, LargeRequests, is_large
from app.gateway.request_translation.translated_request import RequestPart, TranslatedRequest
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.response_translation import translate
from app.gateway.response_translation.dialect_pair import chat_dialects
from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.stream_assembler import StreamAssembler
from app.gateway.response_translation.write_response import check_finished, write_response
from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.body import content_kind, is_event_stream, iter_blocks, read_body, read_error_body, response_stream
from app.gateway.upstream.call import PartCall, UpstreamCall
from app.gateway.upstream.merged_responses import MergedEvents, MergedStream, merge_embeddings
from app.gateway.upstream.progress import ResponseProgress
from app.gateway.upstream.response_validation import ResponseChecker, check_demanded_calls, validate_calls, validate_response
from app.settings import Settings
from providers.canonical.chat import ChatResponse
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, TokenUnavailable, UpstreamError
from providers.canonical.events import Event, ResponseAssembler, UsageReported, response_events
from providers.canonical.model_names import read_model_name
from providers.canonical.slow_numbers import UNCOUNTED_BYTES, check_response_numbers
from providers.canonical.upstream_errors import MAX_ERROR_BYTES
from providers.credentials import CredentialError
from providers.dialect import EngineDialect, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS
from providers.engine_routes.missing_route import explain_missing_api
from providers.engine_routes.route_binding import RouteBinding

P = ParamSpec("P")
T = TypeVar("T")

# Of the requests into which one was split: how many run at once, and the bytes of their bodies.
_MAX_PARTS_AT_ONCE = 8
_PART_BYTES_AT_ONCE = 4_000_000
# A longer error closes the connection, which a shorter one leaves open for the next request.
_MAX_ERROR_BODY_BYTES = 1024 * 1024


class OutboundStream(Struct):
    """A stream that has begun: what to send first, and the engine's blocks that the editor turns into the rest."""

    first: bytes
    editor: StreamEditor
    blocks: AsyncIterator[bytes]


class UpstreamClient:
    """`transport` sends to engines; `checks` validate responses of engines that do not enforce a constraint.

    `large_requests`: large responses are translated there, too.
    """

    def __init__(
        self, settings: Settings, checks: ConstraintChecks, transport: httpx.AsyncBaseTransport, large_requests: LargeRequests
    ) -> None:
        self._checks = checks
        self._large_requests = large_requests
        self._transport = transport
        self._max_bytes = settings.max_reply_bytes

    async def send(
        self,
        call: UpstreamCall,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """Raises UpstreamError."""
        if call.endpoint.provider.stops_after_calls:
            meta = replace(meta, stops_after_calls=True)
        try:
            if translated.parts:
                return await self._send_parts(call, translated, translator, meta, progress)
            response = await self._request(call, translated)
            return await self._translate(call, response, translated, translator, meta, progress)
        except StreamTruncated as fault:
            raise await self._diagnose_empty_stream(call, translated) or fault from None
        except CredentialError as fault:
            raise call.credential_error(fault) from None
        except httpx.TransportError as fault:
            raise call.connection_error(fault) from fault

    async def _request(self, call: UpstreamCall, translated: TranslatedRequest) -> httpx.Response:
        """The engine's response, not read yet. Raises the error that it is."""
        provider = call.endpoint.provider
        timeout = call.timeouts.stream if translated.stream else call.timeouts.response
        body = translated.raw
        while True:
            request = await call.build_request(translated, body, timeout)
            call.extensions = request.extensions
            response = call.response = await self._transport.handle_async_request(request)
            if provider.reports_rate_limits and not call.is_shadow:
                call.credential_client.cooldown.record_headers(call.model, response.headers)
            if 200 <= response.status_code < 300:
                return response
            error = await _read_error(call, response, translated)
            if body is not translated.raw:  # it was sent once more already
                raise error
            changed = provider.body_after_refusal(error, translated.dialect.name, body)
            if changed is None:
                raise error
            await response_stream(response).aclose()
            body = changed

    async def _translate(
        self,
        call: UpstreamCall,
        response: httpx.Response,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        caller_dialect, target_dialect = translator.caller_dialect, translated.dialect
        emulation, choices = translated.response_editing, translator.request.choices
        blocks, coding = await self._open_body(call, response, translated)
        if translated.is_checked:
            return await self._validate(response, blocks, coding, translated, translator, meta, progress)
        if translator.request.stream:
            if translator.resumable is not None and blocks is not None and emulation is None:
                editor = translator.resumable.open(chat_dialects(caller_dialect, target_dialect)[1], meta)
            elif translator.continues:
                raise InvalidUpstreamResponse(f"{call.endpoint.provider.configured_as} did not stream.")
            else:
                editor = translate.make_stream_editor(
                    caller_dialect, target_dialect, meta, streamed=blocks is not None, emulation=emulation, choices=choices
                )
            if blocks is not None:
                return await _begin_stream(blocks, editor, progress, call.endpoint.provider.configured_as)
            body = await self._read_body(response, coding, translator)
            progress.mark_first_token()
            return OutboundStream(await self._run_beside_loop_if_large(translator, body, editor.feed, body), editor, _no_blocks())
        if blocks is not None:
            assembler = translate.make_assembler(caller_dialect, target_dialect, meta, emulation=emulation, choices=choices)
            raw = await _assemble(blocks, assembler, self._max_bytes, progress)
            return await self._run_beside_loop_if_large(translator, raw, assembler.finish)
        raw = await read_body(response, self._max_bytes, coding)
        size_bytes = len(raw)
        if size_bytes > UNCOUNTED_BYTES:
            await self._run_beside_loop_if_large(translator, raw, check_response_numbers, [raw])
        if raw[:1] != b"{" and is_event_stream(raw):
            assembler = translate.make_assembler(caller_dialect, target_dialect, meta, emulation=emulation, choices=choices)
            await self._run_beside_loop_if_large(translator, raw, assembler.feed, raw)
            progress.written_tokens = assembler.written_tokens
            return await self._run_beside_loop_if_large(translator, raw, assembler.finish)
        if size_bytes <= SMALL_BYTES:  # as nearly always
            return translate.translate_response(raw, caller_dialect, target_dialect, meta, response.headers, emulation)
        return await self._run_beside_loop_if_large(
            translator, raw, translate.translate_response, raw, caller_dialect, target_dialect, meta, response.headers, emulation
        )

    async def _open_body(
        self, call: UpstreamCall, response: httpx.Response, translated: TranslatedRequest
    ) -> tuple[AsyncIterator[bytes] | None, bytes]:
        """The blocks of a stream, None for a response that is not streamed; and the content encoding of such a one."""
        streamed, coding = content_kind(response, translated.stream)
        if not streamed and translated.stream and not coding:
            streamed = is_event_stream(await response_stream(response).peek())
        if not streamed:
            return None, coding
        unwrapper = call.endpoint.provider.stream_unwrapper(translated.dialect.name)
        return iter_blocks(response, unwrapper, coding, self._max_bytes), coding

    async def _read_body(self, response: httpx.Response, coding: bytes, translator: RequestTranslator) -> bytes:
        """The whole body. Raises InvalidUpstreamResponse if it is too large, or takes too long to decode."""
        raw = await read_body(response, self._max_bytes, coding)
        await self._run_beside_loop_if_large(translator, raw, check_response_numbers, [raw])
        return raw

    async def _run_beside_loop_if_large(
        self, translator: RequestTranslator, response_body: bytes, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if not is_large(response_body):
            return work(*args, **kwargs)
        return await self._large_requests.of_team(translator.team_id).run(work, *args, **kwargs)

    async def _validate(
        self,
        response: httpx.Response,
        blocks: AsyncIterator[bytes] | None,
        coding: bytes,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """The complete response, once it is known to satisfy its constraint and the schemas of its tools.

        `blocks`: None if it is not streamed.

        Raises ConstraintViolation.
        """
        streamed = blocks is not None
        target_dialect, emulation = translated.dialect, translated.response_editing
        caller_dialect, engine_dialect = chat_dialects(translator.caller_dialect, target_dialect)
        if blocks is not None:
            assembler = StreamAssembler(caller_dialect, engine_dialect, meta)
            raw = await _assemble(blocks, assembler, self._max_bytes, progress)
            chat_response = assembler.response()
        else:
            raw = await self._read_body(response, coding, translator)
            chat_response = await self._run_beside_loop_if_large(translator, raw, engine_dialect.read_response, raw)
        progress.usage, progress.model = chat_response.usage, read_model_name(chat_response.model)
        if emulation is not None:
            chat_response = trim_response(chat_response, emulation)
        chat_response = await self._check(check_finished(chat_response), translated, translator, progress)
        is_rewritten = emulation is not None or (translated.constraint_plan is not None and translated.constraint_plan.rewrites_text)
        if not translator.request.stream:
            if streamed or is_rewritten:
                return await self._run_beside_loop_if_large(translator, raw, write_response, chat_response, caller_dialect, meta)
            return await self._run_beside_loop_if_large(
                translator, raw, translate.translate_response, raw, translator.caller_dialect, target_dialect, meta
            )
        progress.mark_first_token()
        if is_rewritten:
            streamer = ResponseStreamer(caller_dialect, engine_dialect, meta)
            first = await self._run_beside_loop_if_large(translator, raw, streamer.stream_response, chat_response)
            return OutboundStream(first, streamer, _no_blocks())
        editor = translate.make_stream_editor(translator.caller_dialect, target_dialect, meta, streamed=streamed)
        first = await self._run_beside_loop_if_large(translator, raw, editor.feed, raw)
        if editor.failure is not None:
            raise editor.failure
        return OutboundStream(first, editor, _no_blocks())

    async def _check(
        self, response: ChatResponse, translated: TranslatedRequest, translator: RequestTranslator, progress: ResponseProgress
    ) -> ChatResponse:
        """The response, with its text as its constraint describes it. Raises ConstraintViolation."""
        checker = ResponseChecker(self._checks, translator.team_id, translator.refuses_unvalidated)
        plan, emulation, is_validated = translated.constraint_plan, translated.emulation, True
        if plan is not None:
            assert translator.constraint is not None
            response, is_validated = await validate_response(response, plan, translator.constraint, checker)
        if emulation is not None and emulation.tools is not None:
            check_demanded_calls(response, emulation.tools)
        if emulation is not None and emulation.strict_tools:
            is_validated = await validate_calls(response, emulation.strict_tools, checker) and is_validated
        progress.is_unvalidated = not is_validated
        return response

    async def _send_parts(
        self,
        call: UpstreamCall,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """The responses to the parts of a request as one. Raises UpstreamError if one of them fails."""
        concurrency = max(1, min(_MAX_PARTS_AT_ONCE, _PART_BYTES_AT_ONCE // (len(translated.raw) + 1)))
        call.part_count = len(translated.parts)
        meta = replace(meta, estimated_input=sum(part.input_tokens for part in translated.parts))
        if translator.caller_dialect.name not in CALLER_CHAT_DIALECTS:
            return await self._send_embedding_parts(call, translated, translator, meta, concurrency)
        caller_dialect, engine_dialect = chat_dialects(translator.caller_dialect, translated.dialect)
        received = _ReceivedBytes(self._max_bytes)
        sources = [functools.partial(self._part_events, call, part, engine_dialect, received) for part in translated.parts]
        merged, emulation = MergedEvents(sources, concurrency), translated.response_editing
        call.close_on_release(merged.close)
        if translator.request.stream and not translated.is_checked:
            editor = MergedStream(caller_dialect, meta, None if emulation is None else ResponseTrimmer(emulation, len(sources)))
            return await _begin_stream(editor.blocks(aiter(merged)), editor, progress, call.endpoint.provider.configured_as)
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
            response = await self._check(response, translated, translator, progress)
        if not translator.request.stream:
            return write_response(response, caller_dialect, meta)
        progress.mark_first_token()
        streamer = ResponseStreamer(caller_dialect, engine_dialect, meta)
        return OutboundStream(streamer.stream_response(response), streamer, _no_blocks())

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
        response = await self._request(part, translated)
        call.note_part(part)
        blocks, coding = await self._open_body(part, response, translated)
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
        self, call: UpstreamCall, translated: TranslatedRequest, translator: RequestTranslator, meta: ResponseMeta, concurrency: int
    ) -> OutboundResponse:
        received, turns = _ReceivedBytes(self._max_bytes), asyncio.Semaphore(concurrency)

        async def send(request: RequestPart) -> OutboundResponse:
            async with turns:
                part_of = await request.make()
                part_meta = replace(meta, estimated_input=request.input_tokens)
                async with _send_part(call, part_of, request.input_tokens) as part:
                    response = await self._request(part, part_of)
                    call.note_part(part)
                    raw = await read_body(response, received.left, content_kind(response, False)[1])
                    received.add(raw)
                    check_response_numbers([raw])
                    answered = translate.translate_response(raw, translator.caller_dialect, part_of.dialect, part_meta, response.headers)
                    part.usage, part.has_finished = answered.usage, True
                    return answered

        tasks = [asyncio.ensure_future(send(part)) for part in translated.parts]
        try:
            return merge_embeddings(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _diagnose_empty_stream(self, call: UpstreamCall, translated: TranslatedRequest) -> UpstreamError | None:
        """Why a stream ended before its first byte, at engines that report it in non-streaming responses only."""
        provider, response = call.endpoint.provider, call.response
        if response is None or response_stream(response).response.body_started:
            return None
        raw = provider.diagnostic_request(translated.raw)
        if raw is None:
            return None
        try:
            request = await call.build_request(translated, raw, call.timeouts.stream)
            diagnosis = await self._transport.handle_async_request(request)
            body = call.credential_client.secret_mask.mask_bytes(await _read_error_body(diagnosis))
        except (httpx.TransportError, TokenUnavailable, CredentialError, InvalidUpstreamResponse):
            return None
        return provider.read_error(diagnosis.status_code, diagnosis.headers, body) if diagnosis.status_code >= 300 else None


@contextlib.asynccontextmanager
async def _send_part(call: UpstreamCall, translated: TranslatedRequest, input_tokens: int) -> AsyncGenerator[PartCall]:
    """The call of a part, released at the end. Raises UpstreamError, which names the request, for what fails meanwhile."""
    part = call.for_part(translated.id, input_tokens)
    try:
        try:
            yield part
        except CredentialError as fault:
            raise part.credential_error(fault) from None
        except httpx.TransportError as fault:
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


async def _read_error(call: UpstreamCall, response: httpx.Response, translated: TranslatedRequest) -> UpstreamError:
    provider = call.endpoint.provider
    body = call.credential_client.secret_mask.mask_bytes(await _read_error_body(response))
    error = provider.read_error(response.status_code, response.headers, body)
    if isinstance(translated.dialect, RouteBinding):
        return translated.dialect.explain_error(error, provider.configured_as)
    return explain_missing_api(error, response.headers.get("content-type", ""), provider.configured_as)


async def _read_error_body(response: httpx.Response) -> bytes:
    """The part of an error's body that is read as one. Cut before it is masked: the texts of an error are far from the cut.

    Empty for a body beyond all bounds, which repeats the request: the status says what kind of error it is.
    """
    try:
        return (await read_error_body(response, _MAX_ERROR_BODY_BYTES))[: MAX_ERROR_BYTES + 1]
    except InvalidUpstreamResponse:
        return b""


async def _begin_stream(
    blocks: AsyncIterator[bytes], editor: StreamEditor, progress: ResponseProgress, provider_name: str
) -> OutboundStream:
    """Reads until there is something for the caller. Raises UpstreamError if the engine shows that there will not be."""
    async for block in blocks:
        progress.mark_first_token()
        first = editor.feed(block)
        if first:
            return OutboundStream(first, editor, blocks)
        if editor.failure is not None:
            raise editor.failure
        if editor.done:
            break
    # A short response may be a single frame, which the editor withholds because it is also the last.
    if editor.finish_reason is None:
        raise StreamTruncated(f"{provider_name} ended its answer before it began.")
    return OutboundStream(b"", editor, blocks)


async def _assemble(blocks: AsyncIterator[bytes], assembler: StreamAssembler, limit_bytes: int, progress: ResponseProgress) -> bytes:
    """The stream's bytes. A caller who disconnects meanwhile is charged what came until then.

    Raises InvalidUpstreamResponse over the limit.
    """
    received = BytesIO()  # it gives its bytes away without a copy
    async for block in blocks:
        received.write(block)
        if received.tell() > limit_bytes:
            raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes.")
        assembler.feed(block)
        progress.written_tokens = assembler.written_tokens
        if assembler.done:
            break
    return received.getvalue()


async def _no_blocks() -> AsyncIterator[bytes]:
    return
    yield b""
