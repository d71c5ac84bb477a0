"""The byte edit of generateContent, complete and streamed: the id and the model are ours, the rest stays the host's own bytes."""

from typing import Any

import msgspec

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.sse import sse_frame, to_single_line
from providers.canonical.token_estimate import tokens_of_bytes
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.gemini.finish_reasons import read_block_reason, recorded_reason
from providers.dialects.gemini.grounded_searches import SearchCounter
from providers.dialects.gemini.response_head import response_tail
from providers.dialects.gemini.response_schema import Candidate, Frame, decode_frame
from providers.dialects.gemini.usage import read_usage, write_usage
from providers.stream_editor import SSEStreamEditor, text_pattern, unescaped_size

_written_texts = text_pattern("text")
_CALL = b'"functionCall"'


class _Reader:
    """Reads of a response, frame by frame, what the record needs to know."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.written_bytes = 0
        self._open: set[int] = set()  # candidates that have begun and not finished
        self._has_content: set[int] = set()
        self._has_calls: set[int] = set()
        self._first_reason: str | None = None
        self._searches = SearchCounter()

    def read(self, frame: Frame) -> None:
        self.model = self.model or read_model_name(frame.modelVersion)
        for candidate in frame.candidates or ():
            self._read_candidate(candidate)
        usage = None if frame.usageMetadata is None else read_usage(frame.usageMetadata, self._searches.tool_uses)
        self.usage = usage or self.usage
        if frame.promptFeedback is not None and frame.promptFeedback.blockReason and not frame.candidates:
            self.finish_reason = self.finish_reason or read_block_reason(frame.promptFeedback.blockReason).reason
        if self._first_reason is not None and not self._open:
            self.finish_reason = self.finish_reason or self._first_reason

    def _read_candidate(self, candidate: Candidate) -> None:
        index = candidate.index
        self._open.add(index)
        if candidate.groundingMetadata is not NULL:
            self._searches.observe(candidate.groundingMetadata)
        for raw in (candidate.content.parts or ()) if candidate.content is not None else ():
            part = bytes(raw)
            self._has_content.add(index)
            if _CALL in part:
                self._has_calls.add(index)
                self.written_bytes += len(part)
            else:
                self.written_bytes += sum(map(unescaped_size, _written_texts.findall(part)))
        if candidate.finishReason is not None and candidate.finishReason != "FINISH_REASON_UNSPECIFIED":
            self._open.discard(index)
            reason = recorded_reason(
                candidate.finishReason, has_content=index in self._has_content, has_tool_calls=index in self._has_calls
            )
            self._first_reason = self._first_reason or reason


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """Raises the error of a response with status 200, or InvalidUpstreamResponse."""
    reader = _Reader()
    frame = decode_frame(raw)
    reader.read(frame)
    if reader.finish_reason is None and not frame.candidates:
        raise InvalidUpstreamResponse("The engine's answer has no candidates, and does not say why.")
    body = Body.read_response(raw)
    estimate = None
    if reader.usage is None:
        estimate = tokens_of_bytes(reader.written_bytes)
        body["usageMetadata"] = write_usage(meta.estimate_usage(estimate))
    body.update(response_tail(meta))
    return OutboundResponse(body.write(), reader.usage, reader.finish_reason or "stop", reader.model, estimate)


class GeminiStreamEditor(SSEStreamEditor):
    """A stream editor of streamGenerateContent. Nothing in a stream marks its last frame."""

    def __init__(self, meta: ResponseMeta) -> None:
        super().__init__(meta)
        self._reader = _Reader()
        self._tail = response_tail(meta)
        self._withheld: list[Body] = []

    def _edit_event(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":  # with which a proxy in front of Google may end a stream
            return b""
        reader = self._reader
        reader.read(decode_frame(data))
        self.model, self.usage, self.finish_reason = reader.model, reader.usage, reader.finish_reason
        self.written_bytes = reader.written_bytes
        body = _edited(data, self._tail)
        if self.finish_reason is None:
            return _frame(body)
        self._withheld.append(body)
        return b""

    def _write_end(self) -> bytes:
        if self.usage is None and self._withheld:
            self._withheld[-1]["usageMetadata"] = write_usage(self._meta.estimate_usage(self.written_tokens))
        return b"".join(map(_frame, self._withheld))


def _edited(data: bytes, tail: dict[str, Any]) -> Body:
    try:
        body = Body.read_response(data)
    except DECODE_ERRORS as fault:
        raise InvalidUpstreamResponse(f"The engine's event is not one of generateContent: {fault}.") from None
    body.update(tail)
    return body


def _frame(body: Body) -> bytes:
    return sse_frame(to_single_line(msgspec.json.encode(body)))
