"""A response of Ollama's chat as events, for complete responses and streams alike.

Source: api/types.go and server/routes.go of ollama 0.33, by docs/sources.md#ollama, read 2026-11.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Reasoning, Text, ToolCall, Usage
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
from providers.canonical.finish_reasons import openai_reason
from providers.canonical.raw_json import NULL
from providers.canonical.timestamps import to_unix_seconds
from providers.canonical.token_counts import is_uncounted, plausible_count
from providers.canonical.tool_calls import new_call_id
from providers.dialects.ollama_chat.response_schema import Call, Message, decode_chunk

# Finish reasons that OpenAI names alike.
_FINISH_REASONS = frozenset({"stop", "length"})


class ResponseParser:
    """Parses one response, chunk by chunk. At most one text or reasoning is open at a time; calls arrive complete."""

    def __init__(self) -> None:
        self.done = False  # whether the engine said so; chunks after that are ignored
        self.has_message = False  # whether one of the chunks had a message, if only an empty one
        self._started = False
        self._part_index = 0
        self._open_kind: type[Text | Reasoning] | None = None
        self._has_tool_calls = False

    def read(self, raw: bytes) -> Iterator[Event]:
        if self.done:
            return
        chunk = decode_chunk(raw)
        if not self._started:
            self._started = True
            yield ResponseStarted(chunk.model, to_unix_seconds(chunk.created_at))
        self.has_message = self.has_message or chunk.message is not None
        message = chunk.message or Message()
        if message.thinking:
            yield from self._append_text(Reasoning, message.thinking)
        if message.content:
            yield from self._append_text(Text, message.content)
        if chunk.logprobs:
            yield Logprobs(0, tuple(_logprob(entry) for entry in chunk.logprobs))
        for call in message.tool_calls or ():
            yield from self._close_part()
            yield from self._emit_call(call)
        if chunk.done:
            self.done = True
            yield from self._close_part()
            yield _read_finish(chunk.done_reason or "stop", has_tool_calls=self._has_tool_calls)
            usage = Usage(input=plausible_count(chunk.prompt_eval_count), output=plausible_count(chunk.eval_count))
            if not is_uncounted(usage):
                yield UsageReported(usage)

    def _append_text(self, kind: type[Text | Reasoning], text: str) -> Iterator[Event]:
        if self._open_kind is not kind:
            yield from self._close_part()
            self._open_kind = kind
            yield PartStarted(0, self._part_index, kind(""))
        yield PartDelta(0, self._part_index, text)

    def _close_part(self) -> Iterator[Event]:
        if self._open_kind is not None:
            self._open_kind = None
            yield PartFinished(0, self._part_index)
            self._part_index += 1

    def _emit_call(self, call: Call) -> Iterator[Event]:
        """Older versions give calls no ids."""
        self._has_tool_calls = True
        index = self._part_index
        self._part_index += 1
        yield PartStarted(0, index, ToolCall(call.id or new_call_id(), call.function.name, ""))
        yield PartDelta(0, index, _arguments(call.function.arguments))
        yield PartFinished(0, index)


def _read_finish(reason: str, *, has_tool_calls: bool) -> ChoiceFinished:
    """Ollama says `stop` where a response ends with calls; OpenAI says `tool_calls`.

    Raises UpstreamFailed for `load` and `unload`: the model was loaded or unloaded, and wrote nothing.
    """
    upstream_finish_reason = None if reason in _FINISH_REASONS else reason
    finish_reason = reason if reason in _FINISH_REASONS else openai_reason(reason)
    return ChoiceFinished(0, "tool_calls" if has_tool_calls and finish_reason == "stop" else finish_reason, upstream_finish_reason)


def _arguments(raw: Raw) -> str:
    """The object as the engine wrote it. Old versions write it into a string."""
    if raw == NULL:
        return "{}"
    text = bytes(raw).decode()
    return (msgspec.json.decode(raw, type=str).strip() or "{}") if text.startswith('"') else text


def _logprob(entry: dict[str, Any]) -> Raw:
    """Returns the entry as OpenAI writes it, with all fields, which its clients need."""
    return Raw(msgspec.json.encode({"bytes": None, "top_logprobs": [], **entry}))
