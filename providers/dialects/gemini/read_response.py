"""Answers of generateContent as events: a whole one, which is one frame that says all, and the frames of a stream."""

import datetime
import hashlib
from collections.abc import Iterator

import msgspec

from providers.canonical.chat import ChatResponse
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import Event, ResponseStarted, UsageReported, assemble_response
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error
from providers.dialects.gemini.candidates import CandidateParser
from providers.dialects.gemini.finish_reasons import read_block_reason
from providers.dialects.gemini.response_schema import Frame
from providers.dialects.gemini.usage import read_usage

_decode = msgspec.json.Decoder(Frame).decode
_bodies_decoder = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_MAX_CHOICES = 64


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, Unparsed for an end that is no answer's, or Garbled."""
    parser = ResponseParser()
    response = assemble_response(parser.read(raw))
    if not response.choices:
        raise InvalidUpstreamResponse("The engine's answer has no candidates, and does not say why.")
    return response


class ResponseParser:
    """All candidates of an answer, as it comes. `ended`: each that began is finished, and one did."""

    def __init__(self) -> None:
        self._response_id: str | None = None
        self._candidates: dict[int, CandidateParser] = {}
        self._used_call_ids: set[str] = set()
        self._blocked = False

    @property
    def is_finished(self) -> bool:
        return self._blocked or (bool(self._candidates) and all(candidate.finished is not None for candidate in self._candidates.values()))

    def read(self, raw: bytes) -> Iterator[Event]:
        frame = _decode_frame(raw)
        if self._response_id is None:
            self._response_id = frame.responseId or hashlib.sha256(raw).hexdigest()
            yield ResponseStarted(frame.modelVersion, _seconds(frame.createTime))
        usage = None if frame.usageMetadata is None else read_usage(frame.usageMetadata)
        if usage is not None:
            # First: an end that is no answer's is paid for too.
            yield UsageReported(usage)
        for candidate in frame.candidates or ():
            if not 0 <= candidate.index < _MAX_CHOICES:
                raise InvalidUpstreamResponse(f"The engine numbers an answer {candidate.index}, of {_MAX_CHOICES} that it could give.")
            candidate_parser = self._candidates.get(candidate.index)
            if candidate_parser is None:
                candidate_parser = self._candidates[candidate.index] = CandidateParser(
                    candidate.index, self._response_id, self._used_call_ids
                )
            yield from candidate_parser.read(candidate)
        if frame.promptFeedback is not None and frame.promptFeedback.blockReason and not self._candidates and not self._blocked:
            self._blocked = True
            yield read_block_reason(frame.promptFeedback.blockReason)


def _decode_frame(raw: bytes) -> Frame:
    try:
        frame = _decode(raw)
    except DECODE_ERRORS:
        frame = _decode_or_raise(raw)
    if frame.error != NULL:
        error = find_error(Body.read_response(raw))
        assert error is not None
        raise error
    return frame


def _decode_or_raise(raw: bytes) -> Frame:
    """An error may come in an array of one; an answer in an array is one that was not streamed as it was asked to."""
    if raw.lstrip()[:1] == b"[":
        try:
            error = next((error for body in _bodies_decoder.decode(repair_unicode(raw)) if (error := find_error(body)) is not None), None)
        except DECODE_ERRORS:
            error = None
        raise error or InvalidUpstreamResponse(
            "The engine answered with an array: it was not asked for server-sent events, or passed over that."
        )
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return _decode(repair_unicode(raw))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is none of generateContent: {decode_error}.") from None


def _seconds(created_at: str | None) -> int | None:
    try:
        return None if created_at is None else int(datetime.datetime.fromisoformat(created_at).timestamp())
    except (ValueError, OverflowError):
        return None
