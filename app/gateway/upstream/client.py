"""Asking: one request to one engine, until there is something for the caller: a whole answer, or the beginning of a stream."""

from collections.abc import AsyncIterator

import httpx
from msgspec import Struct
from msgspec.structs import replace

from app.gateway.context import RequestContext
from app.gateway.request_translation.translator import RequestTranslator, TranslatedRequest
from app.gateway.response_translation import translate
from app.gateway.response_translation.translate import StreamAssembler
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.call import UpstreamCall, is_stream, iter_blocks, read_body, response_stream
from app.gateway.upstream.response_validation import validate_response
from app.settings import Settings
from providers.canonical.errors import CredentialRefused, InvalidUpstreamResponse, StreamTruncated, TokenUnavailable, UpstreamError
from providers.credentials import CredentialError
from providers.dialect import OutboundResponse, ResponseMeta, StreamEditor
from providers.engine_routes.route_binding import RouteBinding
from providers.structured_output import ConstraintPlan

_ERROR_BODY_BYTES = 1024 * 1024


class OutboundStream(Struct):
    """A stream that has begun: what to send first, and where the rest comes from."""

    first: bytes
    editor: StreamEditor
    blocks: AsyncIterator[bytes]


class UpstreamClient:
    """`transport` speaks to engines; `checks` look at answers that nobody promised."""

    def __init__(self, settings: Settings, checks: ConstraintChecks, transport: httpx.AsyncBaseTransport) -> None:
        self._checks = checks
        self._transport = transport
        self._max_bytes = settings.max_reply_bytes
        shared_timeouts = {"connect": settings.connect_timeout_s, "write": settings.total_timeout_s, "pool": settings.total_timeout_s}
        total = {"total": settings.total_timeout_s}
        self._stream_timeout = {
            **shared_timeouts,
            **total,
            "first": min(settings.first_token_timeout_s, settings.total_timeout_s),
            "read": settings.silence_timeout_s,
        }
        # A whole answer's first byte is its last, or nearly.
        self._response_timeout = {**shared_timeouts, **total, "first": settings.total_timeout_s, "read": settings.total_timeout_s}

    async def send(
        self, call: UpstreamCall, translated: TranslatedRequest, translator: RequestTranslator, meta: ResponseMeta, context: RequestContext
    ) -> OutboundResponse | OutboundStream:
        """Raises an UpstreamError."""
        endpoint, caller_dialect, target_dialect = call.endpoint, translator.caller_dialect, translated.dialect
        provider_name = endpoint.provider.configured_as
        if endpoint.provider.stops_after_calls:
            meta = replace(meta, stops_after_calls=True)
        try:
            timeout = self._stream_timeout if translated.stream else self._response_timeout
            request = await call.build_request(translated, translated.raw, timeout)
            call.was_sent = True
            response = call.response = await self._transport.handle_async_request(request)
            if endpoint.provider.reports_rate_limits:
                call.credential_client.cooldown.record_headers(call.model, response.headers)
            if response.status_code >= 300 or response.status_code < 200:
                body = call.credential_client.secret_mask.mask_bytes(await read_body(response, _ERROR_BODY_BYTES))
                error = endpoint.provider.read_error(response.status_code, response.headers, body)
                raise target_dialect.explain_error(error, provider_name) if isinstance(target_dialect, RouteBinding) else error
            streamed = is_stream(response, translated.stream)
            blocks = iter_blocks(response, endpoint.provider.stream_unwrapper(target_dialect.name)) if streamed else None
            if translated.constraint_plan is not None and (
                translated.constraint_plan.enforcement == "validated" or translated.constraint_plan.is_json_string
            ):
                return await self._validate_response(
                    response, blocks, translated.constraint_plan, target_dialect, translator, meta, context
                )
            if translator.request.stream:
                return await self._begin_stream(
                    response,
                    translate.make_stream_editor(caller_dialect, target_dialect, meta, streamed=streamed),
                    blocks,
                    context,
                    provider_name,
                )
            if blocks is not None:
                assembler = translate.make_assembler(caller_dialect, target_dialect, meta)
                await _assemble(blocks, assembler, self._max_bytes, context)
                return assembler.finish()
            return translate.translate_response(
                await read_body(response, self._max_bytes), caller_dialect, target_dialect, meta, response.headers
            )
        except StreamTruncated as fault:
            raise await self._diagnose_empty_stream(call, translated) or fault from None
        except CredentialError as fault:
            raise CredentialRefused(str(fault)) from None
        except httpx.TransportError as fault:
            raise call.connection_error(fault) from fault

    async def _diagnose_empty_stream(self, call: UpstreamCall, translated: TranslatedRequest) -> UpstreamError | None:
        """Why a stream ended before its first byte, where the engine tells it to those alone who ask for a whole answer."""
        endpoint, response = call.endpoint, call.response
        if response is None or response_stream(response).response.body_started:
            return None
        raw = endpoint.provider.diagnostic_request(translated.raw)
        if raw is None:
            return None
        try:
            request = await call.build_request(translated, raw, self._stream_timeout)
            diagnostic_response = await self._transport.handle_async_request(request)
            body = call.credential_client.secret_mask.mask_bytes(await read_body(diagnostic_response, _ERROR_BODY_BYTES))
        except (httpx.TransportError, TokenUnavailable, CredentialError, InvalidUpstreamResponse):
            return None
        return (
            endpoint.provider.read_error(diagnostic_response.status_code, diagnostic_response.headers, body)
            if diagnostic_response.status_code >= 300
            else None
        )

    async def _validate_response(
        self,
        response: httpx.Response,
        blocks: AsyncIterator[bytes] | None,
        constraint_plan: ConstraintPlan,
        target_dialect: translate.TargetDialect,
        translator: RequestTranslator,
        meta: ResponseMeta,
        context: RequestContext,
    ) -> OutboundResponse | OutboundStream:
        """The answer once it is whole and known to obey: as it came, unless it came in quotes. `blocks` None: it comes whole.

        Raises NotObeyed.
        """
        streamed = blocks is not None
        caller_dialect, engine_dialect = translate.chat_dialects(translator.caller_dialect, target_dialect)
        assert translator.constraint is not None
        if blocks is not None:
            assembler = StreamAssembler(caller_dialect, engine_dialect, meta)
            raw = await _assemble(blocks, assembler, self._max_bytes, context)
            chat_response = assembler.response()
        else:
            raw = await read_body(response, self._max_bytes)
            chat_response = engine_dialect.read_response(raw)
        context.usage = chat_response.usage
        chat_response = await validate_response(
            translate.check_finished(chat_response), constraint_plan, translator.constraint, self._checks
        )
        if not translator.request.stream:
            if streamed or constraint_plan.is_json_string:
                return translate.write_response(chat_response, caller_dialect, meta)
            return translate.translate_response(raw, translator.caller_dialect, target_dialect, meta)
        context.first_token_us = context.now_us()
        if constraint_plan.is_json_string:
            streamer = translate.ResponseStreamer(caller_dialect, engine_dialect, meta)
            return OutboundStream(streamer.stream_response(chat_response), streamer, _no_blocks())
        editor = translate.make_stream_editor(translator.caller_dialect, target_dialect, meta, streamed=streamed)
        first = editor.feed(raw)
        if editor.failure is not None:
            raise editor.failure
        return OutboundStream(first, editor, _no_blocks())

    async def _begin_stream(
        self,
        response: httpx.Response,
        editor: StreamEditor,
        blocks: AsyncIterator[bytes] | None,
        context: RequestContext,
        provider_name: str,
    ) -> OutboundStream:
        """Reads on until there is something for the caller, or the engine shows that there will not be. `blocks` None: it comes whole."""
        if blocks is None:
            body = await read_body(response, self._max_bytes)
            context.first_token_us = context.now_us()
            first = editor.feed(body)
            return OutboundStream(first, editor, _no_blocks())
        async for block in blocks:
            if context.first_token_us is None:
                context.first_token_us = context.now_us()
            first = editor.feed(block)
            if first:
                return OutboundStream(first, editor, blocks)
            if editor.failure is not None:
                raise editor.failure
            if editor.done:
                break
        # Nothing for the caller but, perhaps, the end: a short answer may be one frame, which the editor withholds.
        if editor.finish_reason is None:
            raise StreamTruncated(f"{provider_name} ended its answer before it began.")
        return OutboundStream(b"", editor, blocks)


async def _assemble(blocks: AsyncIterator[bytes], assembler: StreamAssembler, limit_bytes: int, context: RequestContext) -> bytes:
    """All that came; who hangs up meanwhile pays for what there is of it. Raises Garbled over the limit."""
    received: list[bytes] = []
    size_bytes = 0
    async for block in blocks:
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes.")
        received.append(block)
        assembler.feed(block)
        context.written_tokens = assembler.written_tokens
        if assembler.done:
            break
    return b"".join(received)


async def _no_blocks() -> AsyncIterator[bytes]:
    return
    yield b""
