"""Reads the events of a streamed Response as canonical events."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from providers.canonical.chat import Opaque, Reasoning, Refusal, Text, ToolCall
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
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.sse import SSEDecoder
from providers.dialects.openai.service_tiers import read_service_tier
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.errors import check_untyped_event, find_response_error, read_failure_event
from providers.dialects.openai_responses.finish_reasons import UNFINISHED_STATUSES
from providers.dialects.openai_responses.read_output_items import (
    PARAGRAPH_BREAK,
    read_content,
    read_item,
    read_reasoning_part,
    read_reasoning_text,
    read_tool_call,
    read_unknown_content,
)
from providers.dialects.openai_responses.read_response import read_wire_response
from providers.dialects.openai_responses.response_schema import Item, WireResponse
from providers.dialects.openai_responses.stream_event_schema import StreamEvent, decode_leniently, stream_event_decoder
from providers.dialects.openai_responses.streamed_parts import PartPosition, StreamedParts

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
        self._parts = StreamedParts()
        self._by_position = self._parts.by_position
        self._logprobs_read = False
        # Where calls are whose names have not come.
        self._unnamed_calls: set[int | str | None] = set()

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._sse_decoder.feed(block):
            if self.done:
                return
            event = self._decode_event(data)
            # The fast path: most events of a stream are such deltas.
            part = (
                self._by_position.get((event.output_index, event.content_index or 0))
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

    def _read_event(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        handler = self._event_handlers.get(event.type) or (None if event.response == NULL else ResponsesStreamReader._read_unknown_event)
        if handler is not None:
            try:
                yield from handler(self, event, data)
            except DECODE_ERRORS as exc:
                raise InvalidUpstreamResponse(f"The engine's {event.type} is not what its API promises: {exc}.") from None

    def _decode_event(self, data: bytes) -> StreamEvent:
        """Raises the error that is sent in place of an event."""
        try:
            event = stream_event_decoder.decode(data)
        except DECODE_ERRORS:
            repaired = decode_leniently(data, self._event_handlers)
            self.done = self.done or repaired is None
            event = repaired or StreamEvent()
        if not event.type and not self.done:
            check_untyped_event(data)
        return event

    def _read_start(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        if not self._started and event.response != NULL:
            self._started = True
            wire = _response_decoder.decode(event.response)
            created = None if wire.created_at is None else int(wire.created_at)
            yield ResponseStarted(wire.model, created, None, read_service_tier(wire.service_tier))

    def _read_item_added(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        if event.item == NULL:
            return
        item = read_item(event.item)
        if item.phase:
            self._parts.phases[_item_position(event, item)] = item.phase
        if item.type in ("function_call", "custom_tool_call"):
            position, call = _item_position(event, item), read_tool_call(item)
            if call.name:
                yield self._parts.begin((position, 0), ToolCall(call.id, call.name, "", call.custom))
            else:
                self._unnamed_calls.add(position)

    def _read_part_added(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        if event.part is None or event.part.type == "reasoning_text":
            return
        part = read_content(event.part)
        if part is not None:
            position = _part_position(event)
            empty = self._parts.empty_text(position) if isinstance(part, Text) else Refusal("")
            yield from self._parts.append_text(position, empty, part.text)

    def _read_text_delta(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        position = _part_position(event)
        part = self._by_position.get(position)
        if part is None:
            yield from self._parts.append_text(position, self._parts.empty_text(position), event.delta or "")
        elif event.delta:
            part.has_text = True
            yield PartDelta(0, part.index, event.delta)
        if event.logprobs:
            self._logprobs_read = True
            yield Logprobs(0, tuple(event.logprobs))

    def _read_text_done(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        position = _part_position(event)
        yield from self._parts.append_missing_text(position, self._parts.empty_text(position), event.text or "")

    def _read_refusal_delta(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        yield from self._parts.append_text(_part_position(event), Refusal(""), event.delta or "")

    def _read_refusal_done(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        yield from self._parts.append_missing_text(_part_position(event), Refusal(""), event.refusal or "")

    def _read_annotation(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        position = _part_position(event)
        if event.annotation != NULL and position in self._by_position:
            self._by_position[position].annotations.append(event.annotation)
        return iter(())

    def _read_part_done(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        if event.part is not None and event.part.type != "reasoning_text":
            yield from self._parts.close_content(_part_position(event), event.part)

    def _read_reasoning_delta(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        """Reads reasoning or its summary. If an item has both, only the kind that came first is read."""
        position = (event.output_index if event.output_index is not None else event.item_id, 0)
        part = self._by_position.get(position)
        if part is None:
            yield self._parts.begin(position, Reasoning(""))
            part = self._by_position[position]
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

    def _read_call_delta(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        part = self._by_position.get((event.output_index if event.output_index is not None else event.item_id, 0))
        if part is None:  # of a call without a name, or that was not announced: it waits for its last event, which holds all of it
            self._unnamed_calls.add(event.output_index if event.output_index is not None else event.item_id)
        elif event.delta:
            part.has_text = True
            yield PartDelta(0, part.index, event.delta)

    def _read_item_done(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        if event.item == NULL:
            return
        item = read_item(event.item)
        item_position = _item_position(event, item)
        match item.type:
            case "message":
                if item.phase:
                    self._parts.phases[item_position] = item.phase
                for index, content in enumerate(item.content or ()):
                    yield from self._parts.close_content((item_position, index), content)
            case "reasoning":
                part = read_reasoning_part(read_reasoning_text(item), item.encrypted_content)
                if isinstance(part, Opaque):
                    yield from self._parts.add_opaque((item_position, 0), part)
                elif part is not None or (item_position, 0) in self._by_position:
                    part = part or Reasoning("")
                    yield from self._parts.append_missing_text((item_position, 0), Reasoning(""), part.text)
                    yield from self._parts.close((item_position, 0), opaque_state=part.opaque_state)
            case "function_call" | "custom_tool_call":
                call = read_tool_call(item)
                if not call.name:
                    raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
                self._unnamed_calls.discard(item_position)
                empty = ToolCall(call.id, call.name, "", call.custom)
                yield from self._parts.append_missing_text((item_position, 0), empty, call.arguments)
                yield from self._parts.close((item_position, 0))
            case _:
                for index, content in enumerate(read_unknown_content(event.item)):
                    yield from self._parts.close_content((item_position, index), content)
                yield from self._parts.add_opaque((item_position, 0), Opaque(DIALECT, event.item))

    def _read_completed(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        yield from self._read_start(event, data)
        if event.response == NULL:
            raise InvalidUpstreamResponse(f"The engine's {event.type} holds no response.")
        wire = _response_decoder.decode(event.response)
        if event.type == "response.incomplete" or wire.status in UNFINISHED_STATUSES:
            wire.status = event.type.removeprefix("response.")
        response = read_wire_response(wire)
        choice = response.choices[0]
        output = wire.output or []
        for index in sorted(each for each in self._unnamed_calls if isinstance(each, int) and each < len(output)):
            yield from self._read_item_done(StreamEvent(output_index=index, item=output[index]), data)
        if self._unnamed_calls:
            raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
        has_calls = any(part.part_type is ToolCall for part in self._by_position.values())
        if not self._by_position:  # the engine sends its output only in the last event
            yield from (each for each in response_events(response) if isinstance(each, PartStarted | PartDelta | PartFinished))
        for position, part in list(self._by_position.items()):
            if part.is_function and not part.has_text and position not in self._parts.closed:
                yield PartDelta(0, part.index, "{}")
            yield from self._parts.close(position)
        if choice.logprobs and not self._logprobs_read:
            yield Logprobs(0, choice.logprobs)
        self._finished = self.done = True
        reason = choice.finish_reason or "stop"
        yield ChoiceFinished(0, "tool_calls" if has_calls and reason == "stop" else reason, choice.upstream_finish_reason)
        if response.usage is not None:
            yield UsageReported(response.usage)

    def _read_unknown_event(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        """An event of an unknown type with a Response ends the response if its status says so."""
        if _response_decoder.decode(event.response).status in UNFINISHED_STATUSES:
            return
        error = find_response_error(Body.read_response(bytes(event.response)))
        if error is not None:
            raise error
        yield from self._read_completed(event, data)

    def _raise_failure(self, event: StreamEvent, data: bytes) -> Iterator[Event]:
        raise read_failure_event(data)

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


def _part_position(event: StreamEvent) -> PartPosition:
    return event.output_index if event.output_index is not None else event.item_id, event.content_index or 0


def _item_position(event: StreamEvent, item: Item) -> int | str | None:
    return event.output_index if event.output_index is not None else item.id
