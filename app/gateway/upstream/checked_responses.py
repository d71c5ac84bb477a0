"""CheckedResponses: responses that are held back until they are known to satisfy their constraint and the schemas of their tools."""

from collections.abc import AsyncIterator

import httpx2

from app.gateway.emulation.response_trimmer import trim_response
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.response_translation import translate
from app.gateway.response_translation.dialect_pair import chat_dialects
from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.stream_assembler import StreamAssembler
from app.gateway.response_translation.write_response import check_finished, write_response
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.body import read_whole_body
from app.gateway.upstream.outbound_stream import OutboundStream, assemble, no_blocks
from app.gateway.upstream.progress import ResponseProgress
from app.gateway.upstream.response_validation import (
    ResponseChecker,
    check_demanded_calls,
    validate_calls,
    validate_custom_calls,
    validate_response,
)
from providers.canonical.chat import ChatResponse
from providers.canonical.model_names import read_model_name
from providers.dialect import OutboundResponse, ResponseMeta


class CheckedResponses:
    """Responses that are held back until they are complete and checked.

    `checks` validate responses of engines that do not enforce a constraint.
    """

    def __init__(self, checks: ConstraintChecks, max_bytes: int) -> None:
        self._checks = checks
        self._max_bytes = max_bytes

    async def validate(
        self,
        response: httpx2.Response,
        blocks: AsyncIterator[bytes] | None,
        coding: bytes,
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        progress: ResponseProgress,
        large_requests: TeamLargeRequests,
    ) -> OutboundResponse | OutboundStream:
        """The complete response, once it is known to satisfy its constraint and the schemas of its tools. Raises ConstraintViolation.

        `blocks` is None if it is not streamed.
        """
        streamed = blocks is not None
        target_dialect, emulation = translated.dialect, translated.response_editing
        caller_dialect, engine_dialect = chat_dialects(source.terms.dialect, target_dialect)
        if blocks is not None:
            assembler = StreamAssembler(caller_dialect, engine_dialect, meta)
            raw = await assemble(blocks, assembler, self._max_bytes, progress)
            chat_response = assembler.response()
        else:
            raw = await read_whole_body(response, self._max_bytes, coding, large_requests)
            chat_response = await large_requests.run_on_body(raw, engine_dialect.read_response, raw)
        progress.usage, progress.model = chat_response.usage, read_model_name(chat_response.model)
        if emulation is not None:
            chat_response = trim_response(chat_response, emulation)
        chat_response = await self.check(check_finished(chat_response), translated, source, progress)
        is_rewritten = emulation is not None or (translated.constraint_plan is not None and translated.constraint_plan.rewrites_text)
        if not source.request.stream:
            if streamed or is_rewritten:
                return await large_requests.run_on_body(raw, write_response, chat_response, caller_dialect, meta)
            return await large_requests.run_on_body(raw, translate.translate_response, raw, source.terms.dialect, target_dialect, meta)
        progress.mark_first_token()
        if is_rewritten:
            streamer = ResponseStreamer(caller_dialect, engine_dialect, meta)
            first = await large_requests.run_on_body(raw, streamer.stream_response, chat_response)
            return OutboundStream(first, streamer, no_blocks())
        editor = translate.make_stream_editor(source.terms.dialect, target_dialect, meta, streamed=streamed)
        first = await large_requests.run_on_body(raw, editor.feed, raw)
        if editor.failure is not None:
            raise editor.failure
        return OutboundStream(first, editor, no_blocks())

    async def check(
        self, response: ChatResponse, translated: TranslatedRequest, source: SourceRequest, progress: ResponseProgress
    ) -> ChatResponse:
        """The response, with its text as its constraint describes it. Raises ConstraintViolation."""
        checker = ResponseChecker(self._checks, source.terms.team_id, source.terms.refuses_unvalidated)
        plan, emulation, is_validated = translated.constraint_plan, translated.emulation, True
        if plan is not None:
            assert source.constraint is not None
            response, is_validated = await validate_response(response, plan, source.constraint, checker)
        if emulation is not None and emulation.tools is not None:
            check_demanded_calls(response, emulation.tools)
        if emulation is not None and emulation.strict_tools:
            is_validated = await validate_calls(response, emulation.strict_tools, checker) and is_validated
        if emulation is not None and emulation.custom_tools is not None and emulation.custom_tools.are_checked:
            is_validated = await validate_custom_calls(response, emulation.custom_tools.formats, checker) and is_validated
        progress.is_unvalidated = not is_validated
        return response
