"""Writes events as a stream of chat chunks."""

from typing import Any, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import NarthexError
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.sse import sse_frame, to_single_line
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai.usage import write_usage
from providers.dialects.openai_chat.citations import write_annotation
from providers.dialects.openai_chat.finish_reasons import write_finish_reason
from providers.dialects.openai_chat.function_call import older_finish_reason, wants_function_call
from providers.dialects.openai_chat.reasoning_detail_indexes import with_unique_indexes
from providers.dialects.openai_chat.tool_calls import write_opaque_state, write_tool_call
from providers.dialects.openai_chat.write_reasoning_details import write_details

_encode = msgspec.json.encode
_DONE = b"data: [DONE]\n\n"


class ChatStreamWriter:
    """A stream writer of chat. The role is on the first chunk of a choice, usage on the chunk that finishes the last choice.

    Reasoning details (see write_reasoning_details.py) are on the chunk that finishes their choice.
    """

    def __init__(self, meta: ResponseMeta) -> None:
        self._chunk_head: dict[str, Any] = {
            "id": meta.id,
            "object": "chat.completion.chunk",
            "created": meta.created,
            "model": meta.model,
            "episode_id": meta.episode_id,
        }
        self._wants_usage = meta.wants_usage
        self._stops_after_calls = meta.stops_after_calls
        self._wants_function_call = wants_function_call(meta)
        self._choices: dict[int, _ChoiceState] = {}
        # (choice, part) -> the bytes before and after a delta's text, and the part's state.
        self._delta_templates: dict[tuple[int, int], tuple[bytes, bytes, _PartState]] = {}
        self._held_chunk: dict[str, Any] | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case PartDelta():
                template = self._delta_templates.get((event.choice, event.index))
                if template is None:
                    return self._write_first_delta(event)
                prefix, suffix, state = template
                state.append_text(event.text)
                data = prefix + _encode(event.text) + suffix
                return data if self._held_chunk is None else self._release() + data
            case PartStarted():
                return self._open_part(event)
            case PartFinished():
                return self._close_part(event)
            case ResponseStarted():
                self._chunk_head["created"] = event.created or self._chunk_head["created"]
                if event.system_fingerprint is not None:
                    self._chunk_head["system_fingerprint"] = event.system_fingerprint
                service_tier = write_service_tier(event.service_tier)
                if service_tier is not None:
                    self._chunk_head["service_tier"] = service_tier
                return b""
            case Logprobs():
                entries = [Raw(to_single_line(bytes(entry))) for entry in event.entries]
                return self._chunk(event.choice, {}, logprobs={"content": entries, "refusal": None})
            case ChoiceFinished():
                return self._hold_finish_chunk(event)
            case UsageReported():
                self._usage = event.usage
                return b""
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        if self._usage is not None and self._wants_usage:
            self._held_chunk = self._held_chunk or {**self._chunk_head, "choices": []}
            self._held_chunk["usage"] = write_usage(self._usage)
        return self._release() + _DONE

    def write_failure(self, error: NarthexError) -> bytes:
        return b""

    def _open_part(self, event: PartStarted) -> bytes:
        part = event.part
        choice = self._choice_state(event.choice)
        state = choice.parts[event.index] = _PartState(part)
        match part:
            case ToolCall() if self._wants_function_call and not choice.has_function_call and not part.custom:
                choice.has_function_call = state.is_function_call = True
                return self._chunk(event.choice, {"function_call": {"name": part.name, "arguments": part.arguments}})
            case ToolCall():
                state.call_index = choice.call_count
                choice.call_count += 1
                return self._chunk(event.choice, {"tool_calls": [{"index": state.call_index, **write_tool_call(part)}]})
            case Text() | Reasoning() | Refusal():
                return self._chunk(event.choice, _part_delta(state, part.text)) if part.text else b""
            case Opaque():
                return b""
            case _:
                assert_never(part)

    def _write_first_delta(self, event: PartDelta) -> bytes:
        """Writes the first delta of a part. Later ones differ only in their text, and have no role."""
        state = self._choice_state(event.choice).parts[event.index]
        state.append_text(event.text)
        first_chunk = self._chunk(event.choice, _part_delta(state, event.text))
        prefix, _, suffix = sse_frame(_encode(self._body(event.choice, _part_delta(state, _PLACEHOLDER)))).rpartition(_encode(_PLACEHOLDER))
        self._delta_templates[event.choice, event.index] = prefix, suffix, state
        return first_chunk

    def _close_part(self, event: PartFinished) -> bytes:
        choice = self._choice_state(event.choice)
        state = choice.parts[event.index]
        self._delta_templates.pop((event.choice, event.index), None)
        state.is_open = False
        if event.opaque_state is not None and isinstance(state.part, Reasoning):
            state.part = replace(state.part, opaque_state=event.opaque_state)
        if event.opaque_state is not None and isinstance(state.part, ToolCall) and not state.is_function_call:
            # The official SDK's stream helper fails on a call's delta without a function.
            call_delta = {"index": state.call_index, **_call_delta(state.part, ""), "extra_content": write_opaque_state(event.opaque_state)}
            return self._chunk(event.choice, {"tool_calls": [call_delta]})
        if not isinstance(state.part, Text):
            return b""
        annotations: list[dict[str, Any]] = []
        citations = (*state.part.citations, *event.citations)
        preceding_length = choice.content_length_before(event.index) if citations else 0
        for citation in citations:
            annotation = write_annotation(citation, preceding_length, state.length)
            if annotation is not None:
                annotations.append({**annotation, "index": choice.annotation_count})
                choice.annotation_count += 1
        return self._chunk(event.choice, {"annotations": annotations}) if annotations else b""

    def _hold_finish_chunk(self, event: ChoiceFinished) -> bytes:
        released = self._release()
        choice = self._choice_state(event.choice)
        details = choice.reasoning_details()
        delta = {"reasoning_details": details} if details else {}
        ended_with_calls = self._stops_after_calls and (choice.call_count > 0 or choice.has_function_call)
        ending = write_finish_reason(event.reason, event.stop_sequence, ended_with_calls=ended_with_calls)
        if choice.has_function_call:
            ending["finish_reason"] = older_finish_reason(ending["finish_reason"])
        self._held_chunk = self._body(event.choice, delta, **ending)
        return released

    def _choice_state(self, choice: int) -> "_ChoiceState":
        state = self._choices.get(choice)
        if state is None:
            state = self._choices[choice] = _ChoiceState()
        return state

    def _chunk(self, choice: int, delta: dict[str, Any], **fields: Any) -> bytes:
        return self._release() + sse_frame(_encode(self._body(choice, delta, **fields)))

    def _body(self, choice: int, delta: dict[str, Any], finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
        state = self._choice_state(choice)
        if not state.role_written:
            state.role_written = True
            delta = {"role": "assistant", **delta}
        return {**self._chunk_head, "choices": [{"index": choice, "delta": delta, "finish_reason": finish_reason, **fields}]}

    def _release(self) -> bytes:
        chunk, self._held_chunk = self._held_chunk, None
        return b"" if chunk is None else sse_frame(_encode(chunk))


# Stands for the text in a chunk that is encoded before the text is known. Nothing behind it in a chunk contains it.
_PLACEHOLDER = "\x00"
_DELTA_KEYS: dict[type[Part], str] = {Text: "content", Reasoning: "reasoning_content", Refusal: "refusal"}


def _part_delta(state: "_PartState", text: str) -> dict[str, Any]:
    """The delta that appends text to a part."""
    part = state.part
    if state.is_function_call:
        return {"function_call": {"arguments": text}}
    if isinstance(part, ToolCall):
        return {"tool_calls": [{"index": state.call_index, **_call_delta(part, text)}]}
    return {_DELTA_KEYS[type(part)]: text}


def _call_delta(call: ToolCall, text: str) -> dict[str, Any]:
    return {"custom": {"input": text}} if call.custom else {"function": {"arguments": text}}


class _PartState:
    """A part that is being written. Keeps what the end of the choice needs: the length of a text, and all text of reasoning."""

    __slots__ = ("_pieces", "call_index", "is_function_call", "is_open", "length", "part")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.call_index = 0
        self.is_function_call = False
        self.is_open = isinstance(part, Text)
        self.length = len(part.text) if isinstance(part, Text) else 0
        self._pieces: list[str] | None = [part.text] if isinstance(part, Reasoning) else None

    def append_text(self, text: str) -> None:
        self.length += len(text)
        if self._pieces is not None:
            self._pieces.append(text)

    def complete_part(self) -> Part:
        return replace(self.part, text="".join(self._pieces or ())) if isinstance(self.part, Reasoning) else self.part


def _content_length(state: _PartState) -> int:
    return state.length if isinstance(state.part, Text) else 0


class _ChoiceState:
    """A choice that is being written."""

    __slots__ = ("_closed_count", "_closed_length", "annotation_count", "call_count", "has_function_call", "parts", "role_written")

    def __init__(self) -> None:
        self.role_written = False
        self.call_count = 0
        self.has_function_call = False
        self.annotation_count = 0
        self.parts: dict[int, _PartState] = {}
        # The first `_closed_count` parts are closed, and have `_closed_length` characters of content.
        self._closed_count = 0
        self._closed_length = 0

    def content_length_before(self, index: int) -> int:
        """The number of characters of content before a part."""
        while self._closed_count < index and (part := self.parts.get(self._closed_count)) is not None and not part.is_open:
            self._closed_length += _content_length(part)
            self._closed_count += 1
        if self._closed_count == index:
            return self._closed_length
        return self._closed_length + sum(_content_length(kept) for at, kept in self.parts.items() if self._closed_count <= at < index)

    def reasoning_details(self) -> list[dict[str, Any]]:
        return with_unique_indexes(write_details((part.complete_part(), part.length) for _, part in sorted(self.parts.items())))
