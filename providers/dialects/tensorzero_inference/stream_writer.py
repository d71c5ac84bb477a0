"""Writes events as a stream of POST /inference: chunks of content blocks, or of the text of a JSON response.

A chunk holds one piece of one block, by the block's id. The last one has the finish reason and the usage.
"""

from typing import Any, assert_never

import msgspec

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import NarthexError
from providers.canonical.events import (
    ChoiceFinished,
    Event,
    Logprobs,
    PartDelta,
    PartFinished,
    PartStarted,
    ResponseStarted,
    UsageReported,
)
from providers.canonical.sse import sse_frame, to_single_line
from providers.dialect import ResponseMeta
from providers.dialects.tensorzero_inference.finish_reasons import write_finish_reason
from providers.dialects.tensorzero_inference.opaque_states import write_call_state, write_opaque, write_signature
from providers.dialects.tensorzero_inference.response_head import is_json_response, response_head
from providers.dialects.tensorzero_inference.usage import write_usage

_encode = msgspec.json.encode
_PLACEHOLDER = "\x00"
_DONE = b"data: [DONE]\n\n"


class InferenceStreamWriter:
    """Implements providers.dialect.StreamWriter, for the first choice: there are no others."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._head = response_head(meta)
        self._is_json = is_json_response(meta.request_body)
        self._parts: dict[int, Part] = {}
        # Deltas of a part differ only in their text: what is before and behind it, by the part's index.
        self._delta_frames: dict[int, tuple[bytes, bytes]] = {}
        self._has_calls = False
        self._usage: Usage | None = None
        self._finished: ChoiceFinished | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case PartDelta():
                return self._write_text(event.index, event.text) if event.choice == 0 else b""
            case PartStarted():
                return self._open_part(event.index, event.part) if event.choice == 0 else b""
            case PartFinished():
                return self._close_part(event) if event.choice == 0 else b""
            case ChoiceFinished():
                if event.choice == 0:
                    self._finished = event
                return b""
            case UsageReported():
                self._usage = event.usage
                return b""
            case ResponseStarted() | Logprobs():
                return b""
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        chunk: dict[str, Any] = {**self._head, **({"raw": ""} if self._is_json else {"content": []})}
        finished = self._finished
        if self._usage is not None:
            chunk["usage"] = write_usage(self._usage)
        if finished is not None:
            chunk["finish_reason"] = write_finish_reason(finished.reason, finished.stop_sequence, ended_with_calls=self._has_calls)
        return sse_frame(_encode(chunk)) + _DONE

    def write_failure(self, error: NarthexError) -> bytes:
        return b""

    def _open_part(self, index: int, part: Part) -> bytes:
        self._parts[index] = part
        match part:
            case Text() | Reasoning() | Refusal():
                return self._write_text(index, part.text) if part.text else b""
            case ToolCall():
                self._has_calls = True
                if self._is_json:
                    return b""
                state = b"" if part.opaque_state is None else self._unknown_chunk(index, write_call_state(part.id, part.opaque_state))
                return state + self._block_chunk(_call_delta(part, part.name, part.arguments))
            case Opaque():
                return b"" if self._is_json else self._unknown_chunk(index, write_opaque(part))
            case _:
                assert_never(part)

    def _write_text(self, index: int, text: str) -> bytes:
        frame = self._delta_frames.get(index)
        if frame is None:
            made = self._delta_frame(index)
            if made is None:
                return b""
            frame = self._delta_frames[index] = made
        return frame[0] + _encode(text) + frame[1]

    def _delta_frame(self, index: int) -> tuple[bytes, bytes] | None:
        """Returns a chunk as the bytes before and behind a delta, or None if the response has no field for the text of this part."""
        part = self._parts[index]
        match part:
            case Text() | Refusal():
                written = (
                    self._json_chunk(_PLACEHOLDER)
                    if self._is_json
                    else self._block_chunk({"type": "text", "id": str(index), "text": _PLACEHOLDER})
                )
            case Reasoning() if not self._is_json:
                written = self._block_chunk({"type": "thought", "id": str(index), "text": _PLACEHOLDER})
            case ToolCall() if not self._is_json:
                written = self._block_chunk(_call_delta(part, "", _PLACEHOLDER))
            case _:
                return None
        before, _, behind = written.rpartition(_encode(_PLACEHOLDER))
        return before, behind

    def _close_part(self, event: PartFinished) -> bytes:
        part = self._parts[event.index]
        self._delta_frames.pop(event.index, None)
        if self._is_json:
            return b""
        match part:
            case Reasoning():
                state = event.opaque_state or part.opaque_state
                if state is None:
                    return b""
                return self._block_chunk({"type": "thought", "id": str(event.index), "signature": write_signature(state)})
            case ToolCall() if event.opaque_state is not None:
                return self._unknown_chunk(event.index, write_call_state(part.id, event.opaque_state))
            case _:
                return b""

    def _unknown_chunk(self, index: int, block: dict[str, Any]) -> bytes:
        return self._block_chunk({"id": str(index), **block})

    def _block_chunk(self, block: dict[str, Any]) -> bytes:
        return sse_frame(to_single_line(_encode({**self._head, "content": [block]})))

    def _json_chunk(self, text: str) -> bytes:
        return sse_frame(_encode({**self._head, "raw": text}))


def _call_delta(call: ToolCall, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "raw_name": name, "raw_arguments": arguments}
