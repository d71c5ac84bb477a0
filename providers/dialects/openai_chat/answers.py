"""Answers of OpenAI chat, whole and streamed, as meaning and back.

Source: https://platform.openai.com/docs/api-reference/chat, read 2026-11.
"""

from collections.abc import Iterator
from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

from providers.chat import ChatResponse, Choice, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.dialect import Stamp
from providers.dialects.openai_chat.edits import read_usage
from providers.errors import CutShort, Garbled
from providers.events import Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.told import error_in
from providers.wire import UNREADABLE, Body, Frames, frame, mended, on_one_line


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(Struct):
    """A message or a delta: the same fields, whole or in pieces."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Logprobs(Struct):
    content: list[Raw] | None = None


class _Choice(Struct):
    index: int = 0
    message: _Said | None = None
    delta: _Said | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Answer(Struct):
    choices: list[_Choice]
    model: str = ""
    created: int | float | None = None
    usage: Raw = Raw(b"null")
    system_fingerprint: str | None = None
    service_tier: str | None = None


_decoder = msgspec.json.Decoder(_Answer)


def _read(raw: bytes) -> _Answer:
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    raw = body.write()
    try:
        return _decoder.decode(raw)
    except UNREADABLE:
        pass
    try:
        return _decoder.decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a chat completion: {fault}.") from None


def _seconds(told: int | float | None) -> int | None:
    """Unix time; transformers serve and others tell it with a fraction."""
    return None if told is None else int(told)


def read_response(raw: bytes) -> ChatResponse:
    told = _read(raw)
    return ChatResponse(
        choices=tuple(_read_choice(choice) for choice in sorted(told.choices, key=lambda choice: choice.index)),
        model=told.model,
        created=_seconds(told.created),
        usage=_usage(told),
        system_fingerprint=told.system_fingerprint or None,
        service_tier=told.service_tier or None,
    )


def _usage(told: _Answer) -> Usage | None:
    return None if told.usage == Raw(b"null") else read_usage(told.usage)


def _read_choice(choice: _Choice) -> Choice:
    said = choice.message or _Said()
    parts: list[Part] = []
    reasoning = said.reasoning_content or said.reasoning
    if reasoning:
        parts.append(Reasoning(reasoning))
    if said.content:
        parts.append(Text(said.content))
    if said.refusal:
        parts.append(Refusal(said.refusal))
    for call in said.tool_calls or ():
        function = call.function or _Function()
        parts.append(ToolCall(call.id or "", function.name or "", function.arguments or ""))
    logprobs = choice.logprobs.content if choice.logprobs else None
    return Choice(tuple(parts), choice.finish_reason or None, None if logprobs is None else tuple(logprobs))


def write_response(answer: ChatResponse, stamp: Stamp) -> bytes:
    body: dict[str, Any] = {
        "id": stamp.id,
        "episode_id": stamp.episode_id,
        "object": "chat.completion",
        "created": answer.created or stamp.created,
        "model": stamp.model,
        "choices": [_write_choice(index, choice) for index, choice in enumerate(answer.choices)],
        "system_fingerprint": answer.system_fingerprint or "",
        "service_tier": answer.service_tier or "",
    }
    if answer.usage is not None:
        body["usage"] = write_usage(answer.usage)
    return msgspec.json.encode(body)


def _write_choice(index: int, choice: Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    for part in choice.parts:
        match part:
            case Text():
                message["content"] = (message["content"] or "") + part.text
            case Reasoning():
                message["reasoning_content"] = message.get("reasoning_content", "") + part.text
            case Refusal():
                message["refusal"] = message.get("refusal", "") + part.text
            case ToolCall():
                calls.append({"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}})
            case _:
                assert_never(part)
    if calls:
        message["tool_calls"] = calls
    logprobs = None if choice.logprobs is None else {"content": choice.logprobs}
    return {"index": index, "message": message, "finish_reason": choice.finish_reason, "logprobs": logprobs}


def write_usage(usage: Usage) -> dict[str, Any]:
    """What was not reported is not said; the total is told where both of its terms are."""
    body: dict[str, Any] = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    if usage.input is not None and usage.output is not None:
        body["total_tokens"] = usage.input + usage.output
    if usage.cached is not None:
        body["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    if usage.reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return {key: value for key, value in body.items() if value is not None}


class ChunkReader:
    """See providers.dialect.Reader."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._started = False
        self._finished = False
        self._open: dict[int, tuple[int, type[Part] | int]] = {}
        self._counts: dict[int, int] = {}
        self._calls: dict[tuple[int, int], int] = {}

    def feed(self, block: bytes) -> list[Event]:
        return [event for data in self._frames.feed(block) for event in self._events(data)]

    def end(self) -> list[Event]:
        """Raises CutShort if the stream ended before the answer did."""
        last = [event for data in self._frames.end() for event in self._events(data)]
        if not self._finished:
            raise CutShort("The engine ended its answer midway: no finish reason came.")
        return last

    def _events(self, data: bytes) -> Iterator[Event]:
        if data.strip() == b"[DONE]":
            self.done = True
        if self.done:
            return
        told = _read(data)
        if not self._started:
            self._started = True
            yield Started(told.model, _seconds(told.created), told.system_fingerprint or None, told.service_tier or None)
        for choice in told.choices:
            yield from self._said(choice.index, choice.delta or choice.message or _Said())
            if choice.logprobs is not None and choice.logprobs.content is not None:
                yield Logprobs(choice.index, tuple(choice.logprobs.content))
            if choice.finish_reason:
                self._finished = True
                yield Finished(choice.index, choice.finish_reason)
        usage = _usage(told)
        if usage is not None:
            yield Counted(usage)

    def _said(self, choice: int, said: _Said) -> Iterator[Event]:
        reasoning = said.reasoning_content or said.reasoning
        if reasoning:
            yield from self._grow(choice, Reasoning(""), reasoning)
        if said.content:
            yield from self._grow(choice, Text(""), said.content)
        if said.refusal:
            yield from self._grow(choice, Refusal(""), said.refusal)
        for at, call in enumerate(said.tool_calls or ()):
            function = call.function or _Function()
            number = at if call.index is None else call.index
            if (choice, number) not in self._calls:
                self._calls[choice, number] = self._begin(choice, number)
                yield Opened(choice, self._calls[choice, number], ToolCall(call.id or "", function.name or "", ""))
            if function.arguments:
                yield Delta(choice, self._calls[choice, number], function.arguments)

    def _grow(self, choice: int, empty: Part, text: str) -> Iterator[Event]:
        at, what = self._open.get(choice, (-1, -1))
        if what is not type(empty):
            at = self._begin(choice, type(empty))
            yield Opened(choice, at, empty)
        yield Delta(choice, at, text)

    def _begin(self, choice: int, what: type[Part] | int) -> int:
        at = self._counts.get(choice, 0)
        self._counts[choice] = at + 1
        self._open[choice] = (at, what)
        return at


class ChunkWriter:
    """See providers.dialect.Writer. The role rides on the first chunk of a choice, usage on the one that finishes the last."""

    def __init__(self, stamp: Stamp) -> None:
        self._head: dict[str, Any] = {
            "id": stamp.id,
            "object": "chat.completion.chunk",
            "created": stamp.created,
            "model": stamp.model,
            "episode_id": stamp.episode_id,
        }
        self._wants_usage = stamp.wants_usage
        self._begun: set[int] = set()
        self._calls: dict[tuple[int, int], int] = {}
        self._parts: dict[tuple[int, int], Part] = {}
        self._held: dict[str, Any] | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case Started():
                self._head["created"] = event.created or self._head["created"]
                if event.system_fingerprint is not None:
                    self._head["system_fingerprint"] = event.system_fingerprint
                if event.service_tier is not None:
                    self._head["service_tier"] = event.service_tier
                return b""
            case Opened():
                self._parts[event.choice, event.index] = event.part
                return self._opened(event)
            case Delta():
                return self._chunk(event.choice, self._fragment(event))
            case Logprobs():
                return self._chunk(event.choice, {}, logprobs={"content": [Raw(on_one_line(bytes(entry))) for entry in event.entries]})
            case Finished():
                before = self._release()
                self._held = self._body(event.choice, {}, finish_reason=event.reason)
                return before
            case Counted():
                self._usage = event.usage
                return b""
            case _:
                assert_never(event)

    def end(self) -> bytes:
        if self._usage is not None and self._wants_usage:
            self._held = self._held or {**self._head, "choices": []}
            self._held["usage"] = write_usage(self._usage)
        return self._release() + b"data: [DONE]\n\n"

    def _opened(self, event: Opened) -> bytes:
        part = event.part
        match part:
            case ToolCall():
                number = sum(choice == event.choice for choice, _ in self._calls)
                self._calls[event.choice, event.index] = number
                call = {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
                return self._chunk(event.choice, {"tool_calls": [{"index": number, **call}]})
            case Text() | Reasoning() | Refusal():
                return self._chunk(event.choice, _said(part, part.text)) if part.text else b""
            case _:
                assert_never(part)

    def _fragment(self, event: Delta) -> dict[str, Any]:
        part = self._parts[event.choice, event.index]
        if isinstance(part, ToolCall):
            number = self._calls[event.choice, event.index]
            return {"tool_calls": [{"index": number, "function": {"arguments": event.text}}]}
        return _said(part, event.text)

    def _chunk(self, choice: int, delta: dict[str, Any], **more: Any) -> bytes:
        return self._release() + frame(msgspec.json.encode(self._body(choice, delta, **more)))

    def _body(self, choice: int, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
        if choice not in self._begun:
            self._begun.add(choice)
            delta = {"role": "assistant", **delta}
        return {**self._head, "choices": [{"index": choice, "delta": delta, "finish_reason": finish_reason, **more}]}

    def _release(self) -> bytes:
        held, self._held = self._held, None
        return b"" if held is None else frame(msgspec.json.encode(held))


def _said(part: Text | Reasoning | Refusal, text: str) -> dict[str, Any]:
    match part:
        case Text():
            return {"content": text}
        case Reasoning():
            return {"reasoning_content": text}
        case Refusal():
            return {"refusal": text}
        case _:
            assert_never(part)
