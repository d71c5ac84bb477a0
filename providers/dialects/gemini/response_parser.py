"""A response of generateContent as events, for complete responses and streams alike."""

import hashlib
from collections.abc import Iterator

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import Event, ResponseStarted, UsageReported
from providers.canonical.raw_json import NULL
from providers.canonical.timestamps import to_unix_seconds
from providers.dialects.gemini.candidate_parser import CandidateParser
from providers.dialects.gemini.finish_reasons import read_block_reason
from providers.dialects.gemini.grounded_searches import SearchCounter
from providers.dialects.gemini.response_schema import decode_frame
from providers.dialects.gemini.usage import read_usage

_MAX_CHOICES = 64


class ResponseParser:
    """Parses one response, frame by frame. `is_finished` says that at least one candidate began, and each that began has finished."""

    def __init__(self) -> None:
        self._response_id: str | None = None
        self._candidates: dict[int, CandidateParser] = {}
        self._used_call_ids: set[str] = set()
        self._blocked = False
        self._searches = SearchCounter()

    @property
    def is_finished(self) -> bool:
        return self._blocked or (bool(self._candidates) and all(candidate.finished is not None for candidate in self._candidates.values()))

    def read(self, raw: bytes) -> Iterator[Event]:
        frame = decode_frame(raw)
        if self._response_id is None:
            self._response_id = frame.responseId or hashlib.sha256(raw).hexdigest()
            yield ResponseStarted(frame.modelVersion, to_unix_seconds(frame.createTime))
        for candidate in frame.candidates or ():
            if candidate.groundingMetadata is not NULL:
                self._searches.observe(candidate.groundingMetadata)
        usage = None if frame.usageMetadata is None else read_usage(frame.usageMetadata, self._searches.tool_uses)
        if usage is not None:
            # Usage comes first: a candidate may end with an error, and is billed too.
            yield UsageReported(usage)
        for candidate in frame.candidates or ():
            if not 0 <= candidate.index < _MAX_CHOICES:
                raise InvalidUpstreamResponse(f"The engine sent candidate {candidate.index}: at most {_MAX_CHOICES} are possible.")
            candidate_parser = self._candidates.get(candidate.index)
            if candidate_parser is None:
                candidate_parser = self._candidates[candidate.index] = CandidateParser(
                    candidate.index, self._response_id, self._used_call_ids
                )
            yield from candidate_parser.read(candidate)
        if frame.promptFeedback is not None and frame.promptFeedback.blockReason and not self._candidates and not self._blocked:
            self._blocked = True
            yield read_block_reason(frame.promptFeedback.blockReason)
