"""UpstreamClient: one request to one engine, until there is something for the caller: a response, or the beginning of a stream."""

from collections.abc import AsyncIterator

import httpx2
from msgspec.structs import replace

from app.gateway.large_body.body_size import SMALL_BYTES
from app.gateway.large_body.large_requests import LargeRequests, TeamLargeRequests
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.response_translation import translate
from app.gateway.response_translation.dialect_pair import chat_dialects
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.body import is_event_stream, read_body, read_whole_body
from app.gateway.upstream.call import UpstreamCall
from app.gateway.upstream.checked_responses import CheckedResponses
from app.gateway.upstream.engine_requests import EngineRequests
from app.gateway.upstream.outbound_stream import OutboundStream, assemble, begin_stream, no_blocks
from app.gateway.upstream.progress import ResponseProgress
from app.gateway.upstream.split_requests import SplitRequests
from app.settings import Settings
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.slow_numbers import UNCOUNTED_BYTES, check_response_numbers
from providers.credentials import CredentialError
from providers.dialect import OutboundResponse, ResponseMeta, StreamEditor


class UpstreamClient:
    """Sends requests to engines through `transport`, and gives their responses as the caller gets them.

    `checks` validate responses of engines that do not enforce a constraint. Large responses are translated by `large_requests`, too.
    """

    def __init__(
        self, settings: Settings, checks: ConstraintChecks, transport: httpx2.AsyncBaseTransport, large_requests: LargeRequests
    ) -> None:
        self._large_requests = large_requests
        self._max_bytes = settings.max_reply_bytes
        self._engines = EngineRequests(transport, self._max_bytes)
        self._checked = CheckedResponses(checks, self._max_bytes)
        self._split = SplitRequests(self._engines, self._checked, self._max_bytes)

    async def send(
        self,
        call: UpstreamCall,
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """Raises UpstreamError."""
        if call.endpoint.provider.stops_after_calls:
            meta = replace(meta, stops_after_calls=True)
        try:
            if translated.parts:
                return await self._split.send(call, translated, source, meta, progress)
            response = await self._engines.send(call, translated)
            return await self._translate(call, response, translated, source, meta, progress)
        except StreamTruncated as fault:
            raise await self._engines.diagnose_empty_stream(call, translated) or fault from None
        except CredentialError as fault:
            raise call.credential_error(fault) from None
        except httpx2.TransportError as fault:
            raise call.connection_error(fault) from fault

    async def _translate(
        self,
        call: UpstreamCall,
        response: httpx2.Response,
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse | OutboundStream:
        """The response in the caller's dialect: checked first, begun, or complete."""
        blocks, coding = await self._engines.open_body(call, response, translated)
        if translated.is_checked:
            large_requests = self._large_requests_of(source)
            return await self._checked.validate(response, blocks, coding, translated, source, meta, progress, large_requests)
        if source.request.stream:
            editor = _open_editor(call, translated, source, meta, streamed=blocks is not None)
            if blocks is not None:
                return await begin_stream(blocks, editor, progress, call.endpoint.provider.configured_as)
            large_requests = self._large_requests_of(source)
            body = await read_whole_body(response, self._max_bytes, coding, large_requests)
            progress.mark_first_token()
            return OutboundStream(await large_requests.run_on_body(body, editor.feed, body), editor, no_blocks())
        if blocks is not None:
            return await self._collect(blocks, translated, source, meta, progress)
        raw = await read_body(response, self._max_bytes, coding)
        size_bytes = len(raw)
        if size_bytes > UNCOUNTED_BYTES:
            await self._large_requests_of(source).run_on_body(raw, check_response_numbers, [raw])
        if raw[:1] != b"{" and is_event_stream(raw):
            return await self._read_as_stream(raw, translated, source, meta, progress)
        arguments = raw, source.terms.dialect, translated.dialect, meta, response.headers, translated.response_editing
        if size_bytes <= SMALL_BYTES:  # as nearly always: run_on_body() would say the same, for five calls more
            return translate.translate_response(*arguments)
        return await self._large_requests_of(source).run_on_body(raw, translate.translate_response, *arguments)

    async def _collect(
        self,
        blocks: AsyncIterator[bytes],
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        progress: ResponseProgress,
    ) -> OutboundResponse:
        """The response that an engine streams to a caller who wants it as a whole."""
        emulation, choices = translated.response_editing, source.request.choices
        assembler = translate.make_assembler(source.terms.dialect, translated.dialect, meta, emulation=emulation, choices=choices)
        raw = await assemble(blocks, assembler, self._max_bytes, progress)
        return await self._large_requests_of(source).run_on_body(raw, assembler.finish)

    async def _read_as_stream(
        self, raw: bytes, translated: TranslatedRequest, source: SourceRequest, meta: ResponseMeta, progress: ResponseProgress
    ) -> OutboundResponse:
        """The response of an engine that streams though it was not to, and does not say so."""
        emulation, choices, large_requests = translated.response_editing, source.request.choices, self._large_requests_of(source)
        assembler = translate.make_assembler(source.terms.dialect, translated.dialect, meta, emulation=emulation, choices=choices)
        await large_requests.run_on_body(raw, assembler.feed, raw)
        progress.written_tokens = assembler.written_tokens
        return await large_requests.run_on_body(raw, assembler.finish)

    def _large_requests_of(self, source: SourceRequest) -> TeamLargeRequests:
        return self._large_requests.of_team(source.terms.team_id)


def _open_editor(
    call: UpstreamCall, translated: TranslatedRequest, source: SourceRequest, meta: ResponseMeta, *, streamed: bool
) -> StreamEditor:
    """The editor that turns the engine's response into the caller's stream. `streamed` says whether the engine streams."""
    emulation, resumable = translated.response_editing, source.terms.resumable
    if resumable is not None and streamed and emulation is None:
        return resumable.open(chat_dialects(source.terms.dialect, translated.dialect)[1], meta)
    if source.continues:
        raise InvalidUpstreamResponse(f"{call.endpoint.provider.configured_as} did not stream.")
    return translate.make_stream_editor(
        source.terms.dialect, translated.dialect, meta, streamed=streamed, emulation=emulation, choices=source.request.choices
    )
