"""UpstreamClient: one request to one engine, until there is something for the caller: a response, or the beginning of a stream."""

from collections.abc import AsyncIterator, Callable
from io import BytesIO
from typing import ParamSpec, TypeVar

import httpx
from msgspec import Struct
from msgspec.structs import replace

from app.gateway.large_body.large_requests import SMALL_BYTES, LargeRequests, is_large
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.response_translation import translate
from app.gateway.response_translation.dialect_pair import TargetDialect, chat_dialects
from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.stream_assembler import StreamAssembler
from app.gateway.response_translation.write_response import check_finished, write_response
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.body import content_kind, is_event_stream, iter_blocks, read_body, read_error_body, response_stream
from app.gateway.upstream.call import UpstreamCall
from app.gateway.upstream.progress import ResponseProgress
from app.gateway.upstream.response_validation import ResponseChecker, validate_response
from app.settings import Settings
from providers.canonical.errors import CredentialRefused, InvalidUpstreamResponse, StreamTruncated, TokenUnavailable, UpstreamError
from providers.canonical.model_names import read_model_name
from providers.canonical.upstream_errors import MAX_ERROR_BYTES
from providers.credentials import CredentialError
from providers.dialect import OutboundResponse, ResponseMeta, StreamEditor
from providers.engine_routes.route_binding import RouteBinding
from providers.structured_output import ConstraintPlan

P = ParamSpec("P")
T = TypeVar("T")

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
        total_s = settings.total_timeout_s
        shared = {"connect": settings.connect_timeout_s, "write": total_s, "pool": total_s, "total": total_s}
        self._stream_timeout = {**shared, "first": min(settings.first_token_timeout_s, total_s), "read": settings.silence_timeout_s}
        # The first byte of a non-streaming response comes when the whole response is ready.
        self._response_timeout = {**shared, "first": total_s, "read": total_s}

    async def send(
        self,
        call: UpstreamCall,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """Raises UpstreamError."""
        provider = call.endpoint.provider
        if provider.stops_after_calls:
            meta = replace(meta, stops_after_calls=True)
        timeout = self._stream_timeout if translated.stream else self._response_timeout
        body = translated.raw
        try:
            while True:
                request = await call.build_request(translated, body, timeout)
                call.extensions = request.extensions
                response = call.response = await self._transport.handle_async_request(request)
                if provider.reports_rate_limits:
                    call.credential_client.cooldown.record_headers(call.model, response.headers)
                if 200 <= response.status_code < 300:
                    return await self._translate(call, response, translated, translator, meta, progress)
                error = await _read_error(call, response, translated)
                if body is not translated.raw:  # it was sent once more already
                    raise error
                changed = provider.body_after_refusal(error, translated.dialect.name, body)
                if changed is None:
                    raise error
                await response_stream(response).aclose()
                body = changed
        except StreamTruncated as fault:
            raise await self._diagnose_empty_stream(call, translated) or fault from None
        except CredentialError as fault:
            raise CredentialRefused(str(fault)) from None
        except httpx.TransportError as fault:
            raise call.connection_error(fault) from fault

    async def _translate(
        self,
        call: UpstreamCall,
        response: httpx.Response,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        caller_dialect, target_dialect, plan = translator.caller_dialect, translated.dialect, translated.constraint_plan
        streamed, coding = content_kind(response, translated.stream)
        if not streamed and translated.stream and not coding:
            streamed = is_event_stream(await response_stream(response).peek())
        blocks: AsyncIterator[bytes] | None = None
        if streamed:
            blocks = iter_blocks(response, call.endpoint.provider.stream_unwrapper(target_dialect.name), coding, self._max_bytes)
        if plan is not None and (plan.enforcement == "validated" or plan.is_json_string):
            return await self._validate(response, blocks, coding, plan, target_dialect, translator, meta, progress)
        if translator.request.stream:
            editor = translate.make_stream_editor(caller_dialect, target_dialect, meta, streamed=streamed)
            if blocks is not None:
                return await _begin_stream(blocks, editor, progress, call.endpoint.provider.configured_as)
            body = await read_body(response, self._max_bytes, coding)
            progress.mark_first_token()
            return OutboundStream(await self._run_beside_loop_if_large(translator, body, editor.feed, body), editor, _no_blocks())
        if blocks is not None:
            assembler = translate.make_assembler(caller_dialect, target_dialect, meta)
            raw = await _assemble(blocks, assembler, self._max_bytes, progress)
            return await self._run_beside_loop_if_large(translator, raw, assembler.finish)
        raw = await read_body(response, self._max_bytes, coding)
        if raw[:1] != b"{" and is_event_stream(raw):
            assembler = translate.make_assembler(caller_dialect, target_dialect, meta)
            await self._run_beside_loop_if_large(translator, raw, assembler.feed, raw)
            progress.written_tokens = assembler.written_tokens
            return await self._run_beside_loop_if_large(translator, raw, assembler.finish)
        if len(raw) <= SMALL_BYTES:  # as nearly always
            return translate.translate_response(raw, caller_dialect, target_dialect, meta, response.headers)
        return await self._run_beside_loop_if_large(
            translator, raw, translate.translate_response, raw, caller_dialect, target_dialect, meta, response.headers
        )

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
        constraint_plan: ConstraintPlan,
        target_dialect: TargetDialect,
        translator: RequestTranslator,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """The complete response, once it is known to satisfy its constraint. `blocks`: None if it is not streamed.

        Raises ConstraintViolation.
        """
        streamed = blocks is not None
        caller_dialect, engine_dialect = chat_dialects(translator.caller_dialect, target_dialect)
        assert translator.constraint is not None
        if blocks is not None:
            assembler = StreamAssembler(caller_dialect, engine_dialect, meta)
            raw = await _assemble(blocks, assembler, self._max_bytes, progress)
            chat_response = assembler.response()
        else:
            raw = await read_body(response, self._max_bytes, coding)
            chat_response = await self._run_beside_loop_if_large(translator, raw, engine_dialect.read_response, raw)
        progress.usage, progress.model = chat_response.usage, read_model_name(chat_response.model)
        checker = ResponseChecker(self._checks, translator.team_id, translator.refuses_unvalidated)
        chat_response, is_validated = await validate_response(
            check_finished(chat_response), constraint_plan, translator.constraint, checker
        )
        progress.is_unvalidated = not is_validated
        if not translator.request.stream:
            if streamed or constraint_plan.is_json_string:
                return await self._run_beside_loop_if_large(translator, raw, write_response, chat_response, caller_dialect, meta)
            return await self._run_beside_loop_if_large(
                translator, raw, translate.translate_response, raw, translator.caller_dialect, target_dialect, meta
            )
        progress.mark_first_token()
        if constraint_plan.is_json_string:
            streamer = ResponseStreamer(caller_dialect, engine_dialect, meta)
            first = await self._run_beside_loop_if_large(translator, raw, streamer.stream_response, chat_response)
            return OutboundStream(first, streamer, _no_blocks())
        editor = translate.make_stream_editor(translator.caller_dialect, target_dialect, meta, streamed=streamed)
        first = await self._run_beside_loop_if_large(translator, raw, editor.feed, raw)
        if editor.failure is not None:
            raise editor.failure
        return OutboundStream(first, editor, _no_blocks())

    async def _diagnose_empty_stream(self, call: UpstreamCall, translated: TranslatedRequest) -> UpstreamError | None:
        """Why a stream ended before its first byte, at engines that report it in non-streaming responses only."""
        provider, response = call.endpoint.provider, call.response
        if response is None or response_stream(response).response.body_started:
            return None
        raw = provider.diagnostic_request(translated.raw)
        if raw is None:
            return None
        try:
            request = await call.build_request(translated, raw, self._stream_timeout)
            diagnosis = await self._transport.handle_async_request(request)
            body = call.credential_client.secret_mask.mask_bytes(await _read_error_body(diagnosis))
        except (httpx.TransportError, TokenUnavailable, CredentialError, InvalidUpstreamResponse):
            return None
        return provider.read_error(diagnosis.status_code, diagnosis.headers, body) if diagnosis.status_code >= 300 else None


async def _read_error(call: UpstreamCall, response: httpx.Response, translated: TranslatedRequest) -> UpstreamError:
    provider = call.endpoint.provider
    body = call.credential_client.secret_mask.mask_bytes(await _read_error_body(response))
    error = provider.read_error(response.status_code, response.headers, body)
    return translated.dialect.explain_error(error, provider.configured_as) if isinstance(translated.dialect, RouteBinding) else error


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
