"""Reads the events of a streamed Response as canonical events."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
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
    response_events,
)
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.sse import SSEDecoder
from providers.dialects.openai.service_tiers import read_service_tier
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.errors import check_untyped_event, find_response_error, read_failure_event
from providers.dialects.openai_responses.finish_reasons import UNFINISHED_STATUSES
from providers.dialects.openai_responses.read_output_items import (
    PARAGRAPH_BREAK,
    read_citations,
    read_content,
    read_item,
    read_reasoning_part,
    read_reasoning_text,
    read_tool_call,
    read_unknown_content,
)
from providers.dialects.openai_responses.read_response import read_wire_response
from providers.dialects.openai_responses.response_schema import Content, Item, WireResponse

_PartPosition = tuple[int | str | None, int]


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


class _OpenPart:
    """A part that has started. `paragraph`: for reasoning, whether it is a summary and the index of the current text."""

    __slots__ = ("annotations", "has_text", "index", "is_function", "paragraph", "part_type")

    def __init__(self, index: int, part: Part) -> None:
        self.index = index
        self.part_type = type(part)
        self.is_function = isinstance(part, ToolCall) and not part.custom
        self.has_text = False
        self.paragraph: tuple[bool, int] | None = None
        self.annotations: list[Raw] = []


_event_decoder = msgspec.json.Decoder(_Event)
_kind_decoder = msgspec.json.Decoder(_Kind)
_response_decoder = msgspec.json.Decoder(WireResponse)

_DELTA_EVENTS = frozenset({"response.output_text.delta", "response.function_call_arguments.delta"})


class ResponsesStreamReader:
    """A stream reader of Responses. Engines differ in the events they send: text that had no deltas is taken from an item's last event.

    A part's position is that of its item and its own. llama.cpp's events have no indexes, but the item's id.
    """

    def __init__(self) -> None:
        self.done = False
        self._sse_decoder = SSEDecoder()
        self._started = False
        self._finished = False
        self._part_count = 0
        self._parts: dict[_PartPosition, _OpenPart] = {}
        self._closed: set[_PartPosition] = set()
        self._logprobs_read = False
        # Where calls are whose names have not come.
        self._unnamed_calls: set[int | str | None] = set()
        # The phases of messages that have one, by their positions.
        self._phases: dict[int | str | None, str] = {}

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._sse_decoder.feed(block):
            if self.done:
                return
            event = self._decode_event(data)
            # The fast path: most events of a stream are such deltas.
            part = (
                self._parts.get((event.output_index, event.content_index or 0))
                if event.type in _DELTA_EVENTS and not event.logprobs
                else None
            )
            if part is not None and event.delta:
                part.has_text = True
                yield PartDelta(0, part.index, event.delta)
            else:
                yield from self._read_event(event, data)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the response did."""
        for data in self._sse_decoder.finish():
            if not self.done:
                yield from self._read_event(self._decode_event(data), data)
        if not self._finished:
            raise StreamTruncated("The engine ended its answer midway: no event said that the response is complete.")

    def _read_event(self, event: _Event, data: bytes) -> Iterator[Event]:
        handler = self._event_handlers.get(event.type) or (None if event.response == NULL else ResponsesStreamReader._read_unknown_event)
        if handler is not None:
            try:
                yield from handler(self, event, data)
            except DECODE_ERRORS as exc:
                raise InvalidUpstreamResponse(f"The engine's {event.type} is not what its API promises: {exc}.") from None

    def _decode_event(self, data: bytes) -> _Event:
        """Decodes an event; of an unknown type, only its type. Raises the error that is sent in place of an event."""
        try:
            event = _event_decoder.decode(data)
        except DECODE_ERRORS:
            event = self._decode_repaired(data)
        if not event.type and not self.done:
            check_untyped_event(data)
        return event

    def _decode_repaired(self, data: bytes) -> _Event:
        if data.strip() == b"[DONE]":
            self.done = True
            return _Event()
        repaired = repair_unicode(data)
        try:
            return _event_decoder.decode(repaired)
        except DECODE_ERRORS:
            pass
        try:
            return _event_decoder.decode(with_expected_types(data))
        except DECODE_ERRORS as exc:
            reason = exc
        try:
            kind = _kind_decoder.decode(repaired).type
        except DECODE_ERRORS:
            kind = None
        if kind is None or kind in self._event_handlers:
            raise InvalidUpstreamResponse(f"The engine's event is not one of a Response: {reason}.")
        return _Event(kind)

    def _read_start(self, event: _Event, data: bytes) -> Iterator[Event]:
        if not self._started and event.response != NULL:
            self._started = True
            wire = _response_decoder.decode(event.response)
            created = None if wire.created_at is None else int(wire.created_at)
            yield ResponseStarted(wire.model, created, None, read_service_tier(wire.service_tier))

    def _read_item_added(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.item == NULL:
            return
        item = read_item(event.item)
        if item.phase:
            self._phases[_item_position(event, item)] = item.phase
        if item.type in ("function_call", "custom_tool_call"):
            position, call = _item_position(event, item), read_tool_call(item)
            if call.name:
                yield self._open_part((position, 0), ToolCall(call.id, call.name, "", call.custom))
            else:
                self._unnamed_calls.add(position)

    def _read_part_added(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.part is None or event.part.type == "reasoning_text":
            return
        part = read_content(event.part)
        if part is not None:
            position = _part_position(event)
            yield from self._append_text(position, self._empty_text(position) if isinstance(part, Text) else Refusal(""), part.text)

    def _read_text_delta(self, event: _Event, data: bytes) -> Iterator[Event]:
        part = self._parts.get((event.output_index if event.output_index is not None else event.item_id, event.content_index or 0))
        if part is None:
            position = _part_position(event)
            yield from self._append_text(position, self._empty_text(position), event.delta or "")
        elif event.delta:
            part.has_text = True
            yield PartDelta(0, part.index, event.delta)
        if event.logprobs:
            self._logprobs_read = True
            yield Logprobs(0, tuple(event.logprobs))

    def _read_text_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        position = _part_position(event)
        yield from self._append_missing_text(position, self._empty_text(position), event.text or "")

    def _read_refusal_delta(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._append_text(_part_position(event), Refusal(""), event.delta or "")

    def _read_refusal_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._append_missing_text(_part_position(event), Refusal(""), event.refusal or "")

    def _read_annotation(self, event: _Event, data: bytes) -> Iterator[Event]:
        position = _part_position(event)
        if event.annotation != NULL and position in self._parts:
            self._parts[position].annotations.append(event.annotation)
        return iter(())

    def _read_part_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.part is not None and event.part.type != "reasoning_text":
            yield from self._close_content(_part_position(event), event.part)

    def _read_reasoning_delta(self, event: _Event, data: bytes) -> Iterator[Event]:
        """Reads reasoning or its summary. If an item has both, only the kind that came first is read."""
        position = (event.output_index if event.output_index is not None else event.item_id, 0)
        part = self._parts.get(position)
        if part is None:
            yield self._open_part(position, Reasoning(""))
            part = self._parts[position]
        is_summary = event.summary_index is not None
        paragraph = (is_summary, (event.summary_index if is_summary else event.content_index) or 0)
        if part.paragraph is None:
            part.paragraph = paragraph
        elif part.paragraph != paragraph:
            if part.paragraph[0] != is_summary:
                return
            part.paragraph = paragraph
            yield PartDelta(0, part.index, PARAGRAPH_BREAK)
        if event.delta:
            part.has_text = True
            yield PartDelta(0, part.index, event.delta)

    def _read_call_delta(self, event: _Event, data: bytes) -> Iterator[Event]:
        part = self._parts.get((event.output_index if event.output_index is not None else event.item_id, 0))
        if part is None:  # of a call without a name, or that was not announced: it waits for its last event, which holds all of it
            self._unnamed_calls.add(event.output_index if event.output_index is not None else event.item_id)
        elif event.delta:
            part.has_text = True
            yield PartDelta(0, part.index, event.delta)

    def _read_item_done(self, event: _Event, data: bytes) -> Iterator[Event]:
        if event.item == NULL:
            return
        item = read_item(event.item)
        item_position = _item_position(event, item)
        match item.type:
            case "message":
                if item.phase:
                    self._phases[item_position] = item.phase
                for index, content in enumerate(item.content or ()):
                    yield from self._close_content((item_position, index), content)
            case "reasoning":
                part = read_reasoning_part(read_reasoning_text(item), item.encrypted_content)
                if isinstance(part, Opaque):
                    yield from self._write_opaque_part((item_position, 0), part)
                elif part is not None or (item_position, 0) in self._parts:
                    part = part or Reasoning("")
                    yield from self._append_missing_text((item_position, 0), Reasoning(""), part.text)
                    yield from self._close_part((item_position, 0), opaque_state=part.opaque_state)
            case "function_call" | "custom_tool_call":
                call = read_tool_call(item)
                if not call.name:
                    raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
                self._unnamed_calls.discard(item_position)
                yield from self._append_missing_text((item_position, 0), ToolCall(call.id, call.name, "", call.custom), call.arguments)
                yield from self._close_part((item_position, 0))
            case _:
                for index, content in enumerate(read_unknown_content(event.item)):
                    yield from self._close_content((item_position, index), content)
                yield from self._write_opaque_part((item_position, 0), Opaque(DIALECT, event.item))

    def _close_content(self, position: _PartPosition, content: Content) -> Iterator[Event]:
        part = read_content(content)
        if part is None or position in self._closed:
            return
        empty = self._empty_text(position) if isinstance(part, Text) else Refusal("")
        yield from self._append_missing_text(position, empty, part.text)
        citations = part.citations if isinstance(part, Text) else ()
        yield from self._close_part(position, citations=citations or read_citations(self._parts[position].annotations))

    def _read_completed(self, event: _Event, data: bytes) -> Iterator[Event]:
        yield from self._read_start(event, data)
        if event.response == NULL:
            raise InvalidUpstreamResponse(f"The engine's {event.type} holds no response.")
        wire = _response_decoder.decode(event.response)
        if event.type == "response.incomplete" or wire.status in UNFINISHED_STATUSES:
            wire.status = event.type.removeprefix("response.")
        response = read_wire_response(wire)
        choice = response.choices[0]
        for at in sorted(each for each in self._unnamed_calls if isinstance(each, int)):
            if at < len(wire.output or ()):
                yield from self._read_item_done(_Event(output_index=at, item=(wire.output or [])[at]), data)
        if self._unnamed_calls:
            raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
        has_calls = any(part.part_type is ToolCall for part in self._parts.values())
        if not self._parts:
            # The engine sends its output only in the last event.
            yield from (each for each in response_events(response) if isinstance(each, PartStarted | PartDelta | PartFinished))
        for position, part in list(self._parts.items()):
            if part.is_function and not part.has_text and position not in self._closed:
                yield PartDelta(0, part.index, "{}")
            yield from self._close_part(position)
        if choice.logprobs and not self._logprobs_read:
            yield Logprobs(0, choice.logprobs)
        self._finished = self.done = True
        reason = choice.finish_reason or "stop"
        yield ChoiceFinished(0, "tool_calls" if has_calls and reason == "stop" else reason, choice.upstream_finish_reason)
        if response.usage is not None:
            yield UsageReported(response.usage)

    def _read_unknown_event(self, event: _Event, data: bytes) -> Iterator[Event]:
        """An event of an unknown type with a Response ends the response if its status says so."""
        if _response_decoder.decode(event.response).status in UNFINISHED_STATUSES:
            return
        error = find_response_error(Body.read_response(bytes(event.response)))
        if error is not None:
            raise error
        yield from self._read_completed(event, data)

    def _raise_failure(self, event: _Event, data: bytes) -> Iterator[Event]:
        raise read_failure_event(data)

    def _write_opaque_part(self, position: _PartPosition, part: Opaque) -> Iterator[Event]:
        if position not in self._parts:
            yield self._open_part(position, part)
            yield from self._close_part(position)

    def _open_part(self, position: _PartPosition, part: Part) -> PartStarted:
        self._parts[position] = _OpenPart(self._part_count, part)
        self._part_count += 1
        return PartStarted(0, self._parts[position].index, part)

    def _empty_text(self, position: _PartPosition) -> Text:
        return Text("", phase=self._phases.get(position[0]))

    def _append_text(self, position: _PartPosition, empty: Part, text: str) -> Iterator[Event]:
        if position not in self._parts:
            yield self._open_part(position, empty)
        if text:
            self._parts[position].has_text = True
            yield PartDelta(0, self._parts[position].index, text)

    def _append_missing_text(self, position: _PartPosition, empty: Part, text: str) -> Iterator[Event]:
        """Appends the complete text of a part of which no text has come."""
        if position not in self._closed and (position not in self._parts or not self._parts[position].has_text):
            yield from self._append_text(position, empty, text)

    def _close_part(self, position: _PartPosition, **fields: Any) -> Iterator[Event]:
        if position not in self._closed:
            self._closed.add(position)
            yield PartFinished(0, self._parts[position].index, **fields)

    _event_handlers: ClassVar[Mapping[str, Any]] = {
        "response.created": _read_start,
        "response.queued": _read_start,
        "response.in_progress": _read_start,
        "response.output_item.added": _read_item_added,
        "response.content_part.added": _read_part_added,
        "response.output_text.delta": _read_text_delta,
        "response.output_text.annotation.added": _read_annotation,
        "response.output_text.done": _read_text_done,
        "response.refusal.delta": _read_refusal_delta,
        "response.refusal.done": _read_refusal_done,
        "response.content_part.done": _read_part_done,
        "response.reasoning_text.delta": _read_reasoning_delta,
        "response.reasoning_summary_text.delta": _read_reasoning_delta,
        "response.function_call_arguments.delta": _read_call_delta,
        "response.custom_tool_call_input.delta": _read_call_delta,
        "response.output_item.done": _read_item_done,
        "response.completed": _read_completed,
        "response.incomplete": _read_completed,
        "response.failed": _raise_failure,
        "response.cancelled": _raise_failure,
        "error": _raise_failure,
    }


def _part_position(event: _Event) -> _PartPosition:
    return event.output_index if event.output_index is not None else event.item_id, event.content_index or 0


def _item_position(event: _Event, item: Item) -> int | str | None:
    return event.output_index if event.output_index is not None else item.id
