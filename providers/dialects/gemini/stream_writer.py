"""Writes events as a stream of streamGenerateContent: each frame is a response that holds the next parts.

A call comes whole, in one part, when it is complete. The last frame has the finish reasons and the usage.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from providers.canonical.chat import OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import NarthexError
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.sse import sse_frame, to_single_line
from providers.dialect import ResponseMeta
from providers.dialects.gemini.finish_reasons import write_finish_reason
from providers.dialects.gemini.response_head import includes_thoughts, response_tail
from providers.dialects.gemini.usage import write_usage
from providers.dialects.gemini.write_parts import Grounding, PartsWriter, WrittenPart, write_logprobs

_encode = msgspec.json.encode
_PLACEHOLDER = "\x00"
# Text is kept until its citations are known, up to this many characters.
_MAX_CITED_CHARACTERS = 4_000_000


class _OpenPart:
    """A part that has begun, with its texts so far."""

    __slots__ = ("part", "size", "texts", "wrote_text")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.texts: list[str] = []
        self.size = 0
        self.wrote_text = False


class _Candidate:
    """A choice that is being written."""

    def __init__(self, *, with_thoughts: bool) -> None:
        self.writer = PartsWriter(includes_thoughts=with_thoughts)
        self.grounding = Grounding()
        self.open: dict[int, _OpenPart] = {}
        self.calls: list[int] = []  # the calls that have begun and are not written yet: they are written in this order
        self.complete: dict[int, ToolCall] = {}  # those of them that wait for one before
        self.part_count = 0
        self.has_refusal = False
        self.finished: ChoiceFinished | None = None


class GeminiStreamWriter:
    """Implements providers.dialect.StreamWriter."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._tail = response_tail(meta)
        self._with_thoughts = includes_thoughts(meta.request_body)
        self._candidates: dict[int, _Candidate] = {}
        # Frames of a text differ only in it: what is before and behind it, by choice and by whether it is a thought.
        self._frames: dict[tuple[int, bool], tuple[bytes, bytes]] = {}
        self._usage: Usage | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case PartDelta():
                return self._add_text(event)
            case PartStarted():
                return self._open_part(event)
            case PartFinished():
                return self._close_part(event)
            case Logprobs():
                self._candidate(event.choice)
                return self._frame([{"index": event.choice, "logprobsResult": write_logprobs(event.entries)}])
            case ChoiceFinished():
                self._candidate(event.choice).finished = event
                return b""
            case UsageReported():
                self._usage = event.usage
                return b""
            case ResponseStarted():
                return b""
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        self._candidate(0)
        candidates = [self._last_of(index, self._candidates[index]) for index in sorted(self._candidates)]
        return self._frame(candidates, {} if self._usage is None else {"usageMetadata": write_usage(self._usage)})

    def write_failure(self, error: NarthexError) -> bytes:
        return b""

    def _candidate(self, choice: int) -> _Candidate:
        candidate = self._candidates.get(choice)
        if candidate is None:
            candidate = self._candidates[choice] = _Candidate(with_thoughts=self._with_thoughts)
        return candidate

    def _last_of(self, index: int, candidate: _Candidate) -> dict[str, Any]:
        finished = candidate.finished or ChoiceFinished(index, "stop")
        reason = write_finish_reason(finished.reason, finished.upstream_finish_reason, has_refusal=candidate.has_refusal)
        content = {"parts": [{"text": ""}], "role": "model"}
        return {"content": content, "finishReason": reason, "index": index, **candidate.grounding.write()}

    def _open_part(self, event: PartStarted) -> bytes:
        candidate, part = self._candidate(event.choice), event.part
        candidate.has_refusal = candidate.has_refusal or isinstance(part, Refusal)
        candidate.open[event.index] = _OpenPart(part)
        if isinstance(part, ToolCall):
            candidate.calls.append(event.index)
        text = part.text if isinstance(part, Text | Reasoning | Refusal) else ""
        return self._add_text(PartDelta(event.choice, event.index, text)) if text else b""

    def _add_text(self, event: PartDelta) -> bytes:
        open_part = self._candidates[event.choice].open[event.index]
        part = open_part.part
        if open_part.size < _MAX_CITED_CHARACTERS or not isinstance(part, Text):
            open_part.texts.append(event.text)
            open_part.size += len(event.text)
        is_thought = isinstance(part, Reasoning)
        if isinstance(part, ToolCall) or (is_thought and not self._with_thoughts) or not event.text:
            return b""
        open_part.wrote_text = True
        before, behind = self._text_frame(event.choice, is_thought)
        return before + _encode(event.text) + behind

    def _text_frame(self, choice: int, is_thought: bool) -> tuple[bytes, bytes]:
        frame = self._frames.get((choice, is_thought))
        if frame is None:
            part: WrittenPart = {"text": _PLACEHOLDER, **({"thought": True} if is_thought else {})}
            before, _, behind = self._parts_frame(choice, [part]).partition(_encode(_PLACEHOLDER))
            frame = self._frames[choice, is_thought] = before, behind
        return frame

    def _close_part(self, event: PartFinished) -> bytes:
        candidate = self._candidates[event.choice]
        open_part = candidate.open.pop(event.index)
        text = "".join(open_part.texts)
        part = open_part.part
        match part:
            case Text():
                citations = (*part.citations, *event.citations)
                if citations:
                    candidate.grounding.add(text, candidate.part_count, citations)
                candidate.part_count += open_part.wrote_text
                return self._grounding_frame(event.choice, candidate) if citations else b""
            case Refusal():
                candidate.part_count += open_part.wrote_text
                return b""
            case Reasoning():
                state = event.opaque_state or part.opaque_state
                parts = self._close_thought(candidate, Reasoning(text, state), wrote_text=open_part.wrote_text)
            case ToolCall():
                candidate.complete[event.index] = replace(
                    part, arguments=part.arguments + text, opaque_state=event.opaque_state or part.opaque_state
                )
                parts = self._write_calls(candidate)
            case _:
                parts = candidate.writer.write(part)
        candidate.part_count += len(parts) or open_part.wrote_text
        return self._parts_frame(event.choice, parts) if parts else b""

    def _write_calls(self, candidate: _Candidate) -> list[WrittenPart]:
        """The calls that are complete, as far as those that began before them are."""
        parts: list[WrittenPart] = []
        while candidate.calls and candidate.calls[0] in candidate.complete:
            parts += candidate.writer.write(candidate.complete.pop(candidate.calls.pop(0)))
        return parts

    def _grounding_frame(self, choice: int, candidate: _Candidate) -> bytes:
        """All that was cited so far, while the text is the newest part; the last frame has it again."""
        return self._frame([{"content": {"parts": [{"text": ""}], "role": "model"}, "index": choice, **candidate.grounding.write()}])

    def _close_thought(self, candidate: _Candidate, thought: Reasoning, *, wrote_text: bool) -> list[WrittenPart]:
        """Returns what is still to be written of a thought: its signature, with an empty text where the text was sent before."""
        parts = candidate.writer.write(thought)
        if not wrote_text:
            return parts
        state: OpaqueState | None = thought.opaque_state
        if state is None:
            return []
        return [{**part, "text": ""} for part in parts]

    def _parts_frame(self, choice: int, parts: list[WrittenPart]) -> bytes:
        return self._frame([{"content": {"parts": parts, "role": "model"}, "index": choice}])

    def _frame(self, candidates: list[dict[str, Any]], more: Mapping[str, Any] | None = None) -> bytes:
        return sse_frame(to_single_line(_encode({"candidates": candidates, **(more or {}), **self._tail})))
