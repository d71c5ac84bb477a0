"""Answers of Ollama's /api/chat as events: a line of a stream, and a whole answer, which is one line that says all.

Source: api/types.go and server/routes.go of ollama 0.33, by /reference/engines.md 1.6 and 3, read 2026-11.
"""

import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatResponse, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import (
    ChoiceFinished,
    Event,
    Logprobs,
    PartDelta,
    PartFinished,
    PartStarted,
    ResponseStarted,
    UsageReported,
    assemble_response,
)
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error
from providers.dialects.ollama_chat.ndjson import NdjsonLines

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40
# Its words for an end that are OpenAI's too; others (load, unload) are told beside `stop`.
_FINISH_REASONS = frozenset({"stop", "length"})


class _Function(Struct):
    name: str = ""
    arguments: Raw = NULL


class _Call(Struct):
    function: _Function
    id: str | None = None


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Chunk(Struct):
    message: _Message | None = None
    model: str = ""
    created_at: str | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    logprobs: list[dict[str, Any]] | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(_Chunk).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, or Garbled. One that does not say that it is done has no finish reason."""
    return assemble_response(_ResponseParser().read(raw))


class OllamaStreamReader:
    """See providers.dialect.Reader."""

    def __init__(self) -> None:
        self.done = False
        self._lines = NdjsonLines()
        self._parser = _ResponseParser()

    def feed(self, block: bytes) -> Iterator[Event]:
        for line in self._lines.feed(block):
            yield from self._parser.read(line)
            self.done = self._parser.done

    def finish(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a line at the end is none."""
        for line in self._lines.finish():
            try:
                events = list(self._parser.read(line))
            except InvalidUpstreamResponse:
                break
            yield from events
        self.done = self._parser.done
        if not self.done:
            raise StreamTruncated("The engine ended its answer midway: it did not say that it was done.")


class _ResponseParser:
    """An answer as it comes: at most one text or reasoning is open, and calls come whole. What follows its end is passed over."""

    def __init__(self) -> None:
        self.done = False
        self._started = False
        self._part_index = 0
        self._open_kind: type[Text | Reasoning] | None = None
        self._has_tool_calls = False

    def read(self, raw: bytes) -> Iterator[Event]:
        if self.done:
            return
        chunk = _decode_chunk(raw)
        if not self._started:
            self._started = True
            yield ResponseStarted(chunk.model, _seconds(chunk.created_at))
        message = chunk.message or _Message()
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
            usage = Usage(input=_plausible(chunk.prompt_eval_count), output=_plausible(chunk.eval_count))
            if usage != Usage():
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

    def _emit_call(self, call: _Call) -> Iterator[Event]:
        """Older versions do not name their calls: then we do."""
        self._has_tool_calls = True
        index = self._part_index
        self._part_index += 1
        yield PartStarted(0, index, ToolCall(call.id or f"call_{uuid.uuid4().hex[:24]}", call.function.name, ""))
        yield PartDelta(0, index, _arguments(call.function.arguments))
        yield PartFinished(0, index)


def _decode_chunk(raw: bytes) -> _Chunk:
    try:
        chunk = _decode(raw)
    except DECODE_ERRORS:
        chunk = _decode_or_raise(raw)
    if chunk.error != NULL:
        error = find_error(Body.read_response(raw))
        assert error is not None
        raise error
    return chunk


def _decode_or_raise(raw: bytes) -> _Chunk:
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return _decode(repair_unicode(raw))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is not one of Ollama's chat: {decode_error}.") from None


def _read_finish(reason: str, *, has_tool_calls: bool) -> ChoiceFinished:
    """It calls an end with calls a stop; to OpenAI that is another."""
    upstream_finish_reason = None if reason in _FINISH_REASONS else reason
    finish_reason = reason if reason in _FINISH_REASONS else "stop"
    return ChoiceFinished(0, "tool_calls" if has_tool_calls and finish_reason == "stop" else finish_reason, upstream_finish_reason)


def _arguments(raw: Raw) -> str:
    """An object, as it was written; versions of old said it as a string."""
    if raw == NULL:
        return "{}"
    text = bytes(raw).decode()
    return msgspec.json.decode(raw, type=str) if text.startswith('"') else text


def _logprob(entry: dict[str, Any]) -> Raw:
    """As OpenAI says it, whose clients want all of its fields."""
    return Raw(msgspec.json.encode({"bytes": None, "top_logprobs": [], **entry}))


def _seconds(created_at: str | None) -> int | None:
    try:
        return None if created_at is None else int(datetime.datetime.fromisoformat(created_at).timestamp())
    except (ValueError, OverflowError):
        return None


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None
