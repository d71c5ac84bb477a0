"""The events of a Response that is streamed, as meaning."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from providers.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.dialects.openai_responses.answers import Whole, read_whole
from providers.dialects.openai_responses.failures import failure, failure_in
from providers.dialects.openai_responses.items import (
    BREAK,
    ORIGIN,
    Content,
    Item,
    read_call,
    read_citations,
    read_content,
    read_item,
    read_reasoning,
    read_sealed,
)
from providers.errors import CutShort, Garbled, UpstreamError
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started, unfold
from providers.wire import NULL, UNREADABLE, Body, Frames, mended

_Place = tuple[int | str | None, int]


class _Event(Struct):
    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    logprobs: list[Raw] | None = None
    text: str | None = None
    refusal: str | None = None
    item: Raw = NULL
    part: Content | None = None
    annotation: Raw = NULL
    response: Raw = NULL


class _Kind(Struct):
    type: str = ""


class _Open:
    """A part that has begun. `paragraph`: of a reasoning item, which of its texts is being told."""

    __slots__ = ("annotations", "index", "kind", "paragraph", "told")

    def __init__(self, index: int, kind: type[Part]) -> None:
        self.index = index
        self.kind = kind
        self.told = False
        self.paragraph: tuple[bool, int] | None = None
        self.annotations: list[Raw] = []


_decoder = msgspec.json.Decoder(_Event)
_kinds = msgspec.json.Decoder(_Kind)
_wholes = msgspec.json.Decoder(Whole)

_DELTAS = frozenset({"response.output_text.delta", "response.function_call_arguments.delta"})


class EventReader:
    """See providers.dialect.Reader. Engines differ in which events they send: what an item's last event says was missing is told then.

    A part's place is its item's and its own; llama.cpp's events tell no indexes, but the item's id.
    """

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._started = False
        self._finished = False
        self._count = 0
        self._parts: dict[_Place, _Open] = {}
        self._closed: set[_Place] = set()
        self._told_logprobs = False

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            if self.done:
                return
            event = self._decoded(data)
            # Most of a stream are these, and they need no more than this.
            part = self._parts.get((event.output_index, event.content_index or 0)) if event.type in _DELTAS and not event.logprobs else None
            if part is not None and event.delta:
                part.told = True
                yield Delta(0, part.index, event.delta)
            else:
                yield from self._events(event, data)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did."""
        for data in self._frames.end():
            if not self.done:
                yield from self._events(self._decoded(data), data)
        if not self._finished:
            raise CutShort("The engine ended its answer midway: no event said that the response is complete.")

    def _events(self, event: _Event, data: bytes) -> Iterator[Event]:
        read = self._readers.get(event.type)
        if read is not None:
            try:
                yield from read(self, event, data)
            except UNREADABLE as fault:
                raise Garbled(f"The engine's {event.type} is not what its API promises: {fault}.") from None

    def _decoded(self, data: bytes) -> _Event:
        """An event of a type that says nothing here is told by its type alone. Raises the error that is told in place of an event."""
        try:
            event = _decoder.decode(data)
        except UNREADABLE:
            event = self._mended(data)
        if not event.type and not self.done:
            raise failure_in(Body.read_reply(data)) or Garbled(f"The engine's event has no type: {data[:100]!r}.")
        return event

    def _mended(self, data: bytes) -> _Event:
        if data.strip() == b"[DONE]":
            self.done = True
            return _Event()
        whole = mended(data)
        try:
            return _decoder.decode(whole)
        except UNREADABLE as fault:
            why = fault
        try:
            kind = _kinds.decode(whole).type
        except UNREADABLE:
            kind = None
        if kind is None or kind in self._readers:
            raise Garbled(f"The engine's event is not one of a Response: {why}.")
        return _Event(kind)

    def _start(self, event: _Event, data: bytes) -> Iterator[Event]:
        if not self._started and event.response != NULL:
            self._started = True
            told = _wholes.decode(event.response)
            yield Started(told.model, None if told.created_at is None else int(told.created_at), None, told.service_tier or None)

    def _item_added(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.item == NULL:
            return
        item = read_item(event.item)
        if item.type in ("function_call", "custom_tool_call"):
            call = read_call(item)
            yield self._open((_item_place(event, item), 0), ToolCall(call.id, call.name, "", call.custom))

    def _part_added(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.part is None or event.part.type == "reasoning_text":
            return
        part = read_content(event.part)
        if part is not None:
            yield from self._grow(_place(event), Text("") if isinstance(part, Text) else Refusal(""), part.text)

    def _text(self, event: _Event, data: bytes) -> Iterator[Event]:
        part = self._parts.get((event.output_index if event.output_index is not None else event.item_id, event.content_index or 0))
        if part is None:
            yield from self._grow(_place(event), Text(""), event.delta or "")
        elif event.delta:
            part.told = True
            yield Delta(0, part.index, event.delta)
        if event.logprobs:
            self._told_logprobs = True
            yield Logprobs(0, tuple(event.logprobs))

    def _text_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._catch_up(_place(event), Text(""), event.text or "")

    def _refusal(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._grow(_place(event), Refusal(""), event.delta or "")

    def _refusal_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._catch_up(_place(event), Refusal(""), event.refusal or "")

    def _annotation(self, event: _Event, data: bytes) -> Iterator[Event]:
        place = _place(event)
        if event.annotation != NULL and place in self._parts:
            self._parts[place].annotations.append(event.annotation)
        return iter(())

    def _part_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.part is not None and event.part.type != "reasoning_text":
            yield from self._content_done(_place(event), event.part)

    def _reasoning(self, event: _Event, data: bytes) -> Iterator[Event]:
        """What was thought, or a summary: of an item that tells both, what it began with."""
        place = (event.output_index if event.output_index is not None else event.item_id, 0)
        part = self._parts.get(place)
        if part is None:
            yield self._open(place, Reasoning(""))
            part = self._parts[place]
        is_summary = event.summary_index is not None
        paragraph = (is_summary, (event.summary_index if is_summary else event.content_index) or 0)
        if part.paragraph is None:
            part.paragraph = paragraph
        elif part.paragraph != paragraph:
            if part.paragraph[0] != is_summary:
                return
            part.paragraph = paragraph
            yield Delta(0, part.index, BREAK)
        if event.delta:
            part.told = True
            yield Delta(0, part.index, event.delta)

    def _call(self, event: _Event, data: bytes) -> Iterator[Event]:
        part = self._parts.get((event.output_index if event.output_index is not None else event.item_id, 0))
        if part is None:
            raise Garbled("The engine tells arguments of a call that it has not begun.")
        if event.delta:
            part.told = True
            yield Delta(0, part.index, event.delta)

    def _item_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.item == NULL:
            return
        item = read_item(event.item)
        at = _item_place(event, item)
        match item.type:
            case "message":
                for index, content in enumerate(item.content or ()):
                    yield from self._content_done((at, index), content)
            case "reasoning":
                part = read_sealed(read_reasoning(item), item.encrypted_content)
                if isinstance(part, Opaque):
                    yield from self._whole((at, 0), part)
                elif part is not None or (at, 0) in self._parts:
                    part = part or Reasoning("")
                    yield from self._catch_up((at, 0), Reasoning(""), part.text)
                    yield from self._close((at, 0), seal=part.seal)
            case "function_call" | "custom_tool_call":
                call = read_call(item)
                yield from self._catch_up((at, 0), ToolCall(call.id, call.name, "", call.custom), call.arguments)
                yield from self._close((at, 0))
            case _:
                yield from self._whole((at, 0), Opaque(ORIGIN, event.item))

    def _content_done(self, place: _Place, content: Content) -> Iterator[Event]:
        part = read_content(content)
        if part is None or place in self._closed:
            return
        yield from self._catch_up(place, Text("") if isinstance(part, Text) else Refusal(""), part.text)
        citations = part.citations if isinstance(part, Text) else ()
        yield from self._close(place, citations=citations or read_citations(self._parts[place].annotations))

    def _complete(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._start(event, data)
        if event.response == NULL:
            raise Garbled(f"The engine's {event.type} holds no response.")
        answer = read_whole(_wholes.decode(event.response))
        choice = answer.choices[0]
        called = any(part.kind is ToolCall for part in self._parts.values())
        if not self._parts:
            # An engine that tells its answer in the last event alone.
            yield from (each for each in unfold(answer) if isinstance(each, Opened | Delta | Closed))
        for place in list(self._parts):
            yield from self._close(place)
        if choice.logprobs and not self._told_logprobs:
            yield Logprobs(0, choice.logprobs)
        self._finished = self.done = True
        reason = choice.finish_reason or "stop"
        yield Finished(0, "tool_calls" if called and reason == "stop" else reason)
        if answer.usage is not None:
            yield Counted(answer.usage)

    def _fail(self, event: _Event, data: bytes) -> Iterator[Event]:
        raise told_failure(data)

    def _whole(self, place: _Place, part: Opaque) -> Iterator[Event]:
        if place not in self._parts:
            yield self._open(place, part)
            yield from self._close(place)

    def _open(self, place: _Place, part: Part) -> Opened:
        self._parts[place] = _Open(self._count, type(part))
        self._count += 1
        return Opened(0, self._parts[place].index, part)

    def _grow(self, place: _Place, empty: Part, text: str) -> Iterator[Event]:
        if place not in self._parts:
            yield self._open(place, empty)
        if text:
            self._parts[place].told = True
            yield Delta(0, self._parts[place].index, text)

    def _catch_up(self, place: _Place, empty: Part, text: str) -> Iterator[Event]:
        """The whole text of a part, where none of it was told."""
        if place not in self._closed and (place not in self._parts or not self._parts[place].told):
            yield from self._grow(place, empty, text)

    def _close(self, place: _Place, **more: Any) -> Iterator[Event]:
        if place not in self._closed:
            self._closed.add(place)
            yield Closed(0, self._parts[place].index, **more)

    _readers: ClassVar[Mapping[str, Any]] = {
        "response.created": _start,
        "response.queued": _start,
        "response.in_progress": _start,
        "response.output_item.added": _item_added,
        "response.content_part.added": _part_added,
        "response.output_text.delta": _text,
        "response.output_text.annotation.added": _annotation,
        "response.output_text.done": _text_done,
        "response.refusal.delta": _refusal,
        "response.refusal.done": _refusal_done,
        "response.content_part.done": _part_done,
        "response.reasoning_text.delta": _reasoning,
        "response.reasoning_summary_text.delta": _reasoning,
        "response.function_call_arguments.delta": _call,
        "response.custom_tool_call_input.delta": _call,
        "response.output_item.done": _item_done,
        "response.completed": _complete,
        "response.incomplete": _complete,
        "response.failed": _fail,
        "response.cancelled": _fail,
        "error": _fail,
    }


def _place(event: _Event) -> _Place:
    return event.output_index if event.output_index is not None else event.item_id, event.content_index or 0


def _item_place(event: _Event, item: Item) -> int | str | None:
    return event.output_index if event.output_index is not None else item.id


def told_failure(data: bytes) -> UpstreamError:
    """The error of an `error` event, flat or in an object of its own, or of a failed Response."""
    body = Body.read_reply(data)
    inner = Body.read_reply(bytes(body["response"])) if body.said("response") else body
    return failure_in(inner) or failure({key: body.value(key) for key in ("message", "code", "param") if body.said(key)})
