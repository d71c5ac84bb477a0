"""Answers of Ollama's /api/chat as events: a line of a stream, and a whole answer, which is one line that says all.

Source: api/types.go and server/routes.go of ollama 0.33, by /reference/engines.md 1.6 and 3, read 2026-11.
"""

import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import ChatResponse, Reasoning, Text, ToolCall, Usage
from providers.dialects.ollama_chat.lines import Lines
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started, fold
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, mended

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40
# Its words for an end that are OpenAI's too; others (load, unload) are told beside `stop`.
_REASONS = frozenset({"stop", "length"})


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


class _Line(Struct):
    message: _Message | None = None
    model: str = ""
    created_at: str | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    logprobs: list[dict[str, Any]] | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(_Line).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, or Garbled. One that does not say that it is done has no finish reason."""
    return fold(_Saying().read(raw))


class LineReader:
    """See providers.dialect.Reader."""

    def __init__(self) -> None:
        self.done = False
        self._lines = Lines()
        self._saying = _Saying()

    def feed(self, block: bytes) -> Iterator[Event]:
        for line in self._lines.feed(block):
            yield from self._saying.read(line)
            self.done = self._saying.done

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a line at the end is none."""
        for line in self._lines.end():
            try:
                events = list(self._saying.read(line))
            except Garbled:
                break
            yield from events
        self.done = self._saying.done
        if not self.done:
            raise CutShort("The engine ended its answer midway: it did not say that it was done.")


class _Saying:
    """An answer as it comes: at most one text or reasoning is open, and calls come whole. What follows its end is passed over."""

    def __init__(self) -> None:
        self.done = False
        self._started = False
        self._count = 0
        self._open: type[Text | Reasoning] | None = None
        self._called = False

    def read(self, raw: bytes) -> Iterator[Event]:
        if self.done:
            return
        told = _read(raw)
        if not self._started:
            self._started = True
            yield Started(told.model, _seconds(told.created_at))
        said = told.message or _Message()
        if said.thinking:
            yield from self._grow(Reasoning, said.thinking)
        if said.content:
            yield from self._grow(Text, said.content)
        if told.logprobs:
            yield Logprobs(0, tuple(_logprob(entry) for entry in told.logprobs))
        for call in said.tool_calls or ():
            yield from self._close()
            yield from self._call(call)
        if told.done:
            self.done = True
            yield from self._close()
            yield _finished(told.done_reason or "stop", called=self._called)
            usage = Usage(input=_possible(told.prompt_eval_count), output=_possible(told.eval_count))
            if usage != Usage():
                yield Counted(usage)

    def _grow(self, kind: type[Text | Reasoning], text: str) -> Iterator[Event]:
        if self._open is not kind:
            yield from self._close()
            self._open = kind
            yield Opened(0, self._count, kind(""))
        yield Delta(0, self._count, text)

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            self._open = None
            yield Closed(0, self._count)
            self._count += 1

    def _call(self, call: _Call) -> Iterator[Event]:
        """Older versions do not name their calls: then we do."""
        self._called = True
        at = self._count
        self._count += 1
        yield Opened(0, at, ToolCall(call.id or f"call_{uuid.uuid4().hex[:24]}", call.function.name, ""))
        yield Delta(0, at, _arguments(call.function.arguments))
        yield Closed(0, at)


def _read(raw: bytes) -> _Line:
    try:
        told = _decode(raw)
    except UNREADABLE:
        told = _otherwise(raw)
    if told.error != NULL:
        error = error_in(Body.read_reply(raw))
        assert error is not None
        raise error
    return told


def _otherwise(raw: bytes) -> _Line:
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        return _decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not one of Ollama's chat: {fault}.") from None


def _finished(reason: str, *, called: bool) -> Finished:
    """It calls an end with calls a stop; to OpenAI that is another."""
    told = None if reason in _REASONS else reason
    plain = reason if reason in _REASONS else "stop"
    return Finished(0, "tool_calls" if called and plain == "stop" else plain, told)


def _arguments(raw: Raw) -> str:
    """An object, as it was written; versions of old said it as a string."""
    if raw == NULL:
        return "{}"
    said = bytes(raw).decode()
    return msgspec.json.decode(raw, type=str) if said.startswith('"') else said


def _logprob(entry: dict[str, Any]) -> Raw:
    """As OpenAI says it, whose clients want all of its fields."""
    return Raw(msgspec.json.encode({"bytes": None, "top_logprobs": [], **entry}))


def _seconds(created_at: str | None) -> int | None:
    try:
        return None if created_at is None else int(datetime.datetime.fromisoformat(created_at).timestamp())
    except (ValueError, OverflowError):
        return None


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None
