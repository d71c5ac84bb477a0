"""A stream of ConverseStream as events. Text and reasoning have no start event: they begin with their first delta.

Source: the service model of Bedrock Runtime in botocore 1.44 (ConverseStreamOutput), read 2026-11; recordings aws_bedrock/03 to 22.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation, OpaqueState, Part, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.raw_json import DECODE_ERRORS, NULL, repair_unicode
from providers.dialects.aws.event_stream import EventStreamDecoder, Message, read_message_error
from providers.dialects.bedrock_converse.citations import read_citation
from providers.dialects.bedrock_converse.finish_reasons import read_stop_reason
from providers.dialects.bedrock_converse.opaque_blocks import NAME, read_redacted
from providers.dialects.bedrock_converse.read_response import is_host_tool_type
from providers.dialects.bedrock_converse.stream_blocks import assemble_native_block
from providers.dialects.bedrock_converse.usage import read_usage


class _Input(Struct):
    input: str = ""


class _Reasoning(Struct):
    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None


class _Delta(Struct):
    text: str | None = None
    toolUse: _Input | None = None
    reasoningContent: _Reasoning | None = None
    citation: Raw = NULL


class _ToolUse(Struct):
    toolUseId: str
    name: str
    type: str | None = None


class _Start(Struct):
    toolUse: _ToolUse | None = None


class _StreamEvent(Struct):
    contentBlockIndex: int = 0
    start: _Start | None = None
    delta: _Delta | None = None
    stopReason: str | None = None
    usage: Raw = NULL
    serviceTier: Raw = NULL


_decode_event = msgspec.json.Decoder(_StreamEvent).decode


class _Payload(Struct):
    """The fields of an event from which a block that only Bedrock has is assembled."""

    start: dict[str, Any] = {}
    delta: dict[str, Any] = {}


_decode_payload = msgspec.json.Decoder(_Payload).decode


class _OpenBlock:
    """A block that has begun."""

    __slots__ = ("citations", "events", "has_content", "part", "part_index", "redacted", "signature")

    def __init__(self, part: Part | None) -> None:
        self.part_index: int | None = None  # None until its part is started
        self.part = part  # None: only Bedrock has such a block. It is assembled from `events` and emitted when it is complete
        self.has_content = False
        self.citations: list[Citation] = []
        self.signature = ""
        self.redacted = ""
        self.events: list[_Payload] = []


class ConverseStreamReader:
    """Implements providers.dialect.StreamReader."""

    def __init__(self) -> None:
        self.done = False  # whether usage was reported, which follows the end of the message
        self._stream = EventStreamDecoder()
        self._started = False
        self._finished = False
        self._has_tool_calls = False
        self._part_count = 0
        self._open_blocks: dict[int, _OpenBlock] = {}
        self._handlers: Mapping[str, Callable[[_StreamEvent, bytes], Iterator[Event]]] = {
            "contentBlockStart": self._start_block,
            "contentBlockDelta": self._read_delta,
            "contentBlockStop": self._stop_block,
            "messageStop": self._finish_message,
            "metadata": self._report_usage,
        }

    def feed(self, block: bytes) -> Iterator[Event]:
        for message in self._stream.feed(block):
            yield from self._read_message(message)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the message did."""
        yield from self.feed(b"")
        if not self._finished:
            raise StreamTruncated("The engine ended its answer midway: no stop reason came.")

    def _read_message(self, message: Message) -> Iterator[Event]:
        failure = read_message_error(message)
        if failure is not None:
            raise failure
        if not self._started:
            self._started = True
            yield ResponseStarted("")
        handler = self._handlers.get(message.headers.get(":event-type", ""))
        if handler is not None and not self.done:
            yield from handler(*_read_payload(message.payload))

    def _start_block(self, event: _StreamEvent, payload: bytes) -> Iterator[Event]:
        yield from self._stop_block(event, payload)
        tool_use = event.start.toolUse if event.start is not None else None
        if tool_use is None or is_host_tool_type(tool_use.type):
            started = _decode_payload(payload)
            # A start that says nothing is one that text and reasoning may do without: the first delta says what begins.
            if started.start:
                block = self._open_blocks[event.contentBlockIndex] = _OpenBlock(None)
                block.events.append(started)
            return
        self._has_tool_calls = True
        block = self._open_blocks[event.contentBlockIndex] = _OpenBlock(ToolCall(tool_use.toolUseId, tool_use.name, ""))
        yield self._open_part(block)

    def _open_part(self, block: _OpenBlock) -> Event:
        assert block.part is not None
        block.part_index = self._part_count
        self._part_count += 1
        return PartStarted(0, block.part_index, block.part)

    def _read_delta(self, event: _StreamEvent, payload: bytes) -> Iterator[Event]:
        delta = event.delta
        if delta is None:
            raise InvalidUpstreamResponse("The engine sent a delta event without a delta.")
        block = self._open_blocks.get(event.contentBlockIndex)
        if self._finished:
            raise InvalidUpstreamResponse("The engine sent a piece of its answer after the end.")
        if delta.toolUse is not None and (block is None or isinstance(block.part, Text | Reasoning)):
            raise InvalidUpstreamResponse("The engine sent a piece of a call that has not begun.")
        new_part = _new_part(delta)
        if block is None or (new_part is not None and type(new_part) is not type(block.part)):
            # What began as something else, a block that only Bedrock has or another part, is followed by this one.
            yield from self._stop_block(event, payload)
            block = self._open_blocks[event.contentBlockIndex] = _OpenBlock(new_part)
        text = ""
        match block.part:
            case Text():
                text = delta.text or ""
                if delta.citation != NULL:
                    block.citations.append(_decode_citation(delta.citation))
            case Reasoning() if delta.reasoningContent is not None:
                text = delta.reasoningContent.text or ""
                block.signature += delta.reasoningContent.signature or ""
                block.redacted += delta.reasoningContent.redactedContent or ""
            case ToolCall() if delta.toolUse is not None:
                text = delta.toolUse.input
            case _:
                block.events.append(_decode_payload(payload))
        if not text:
            return
        if block.part_index is None:
            yield self._open_part(block)
        assert block.part_index is not None
        block.has_content = True
        yield PartDelta(0, block.part_index, text)

    def _stop_block(self, event: _StreamEvent, payload: bytes) -> Iterator[Event]:
        block = self._open_blocks.pop(event.contentBlockIndex, None)
        if block is not None:
            yield from self._close_block(block)

    def _close_block(self, block: _OpenBlock) -> Iterator[Event]:
        match block.part:
            case ToolCall():
                assert block.part_index is not None
                if not block.has_content:
                    yield PartDelta(0, block.part_index, "{}")
                yield PartFinished(0, block.part_index)
            case Reasoning() if block.redacted:
                yield from self._emit_complete_part(read_redacted(block.redacted))
            case Reasoning() | Text():
                if block.part_index is None and (block.signature or block.citations):
                    yield self._open_part(block)
                if block.part_index is not None:
                    opaque_state = OpaqueState(NAME, block.signature) if block.signature else None
                    yield PartFinished(0, block.part_index, opaque_state, tuple(block.citations))
            case _:
                starts = [event.start for event in block.events if event.start]
                yield from self._emit_complete_part(
                    assemble_native_block(starts[0] if starts else {}, [event.delta for event in block.events])
                )

    def _emit_complete_part(self, part: Part) -> Iterator[Event]:
        block = _OpenBlock(part)
        yield self._open_part(block)
        assert block.part_index is not None
        yield PartFinished(0, block.part_index)

    def _finish_message(self, event: _StreamEvent, payload: bytes) -> Iterator[Event]:
        if self._finished:
            return
        for index in sorted(self._open_blocks):
            yield from self._close_block(self._open_blocks.pop(index))
        finish_reason, upstream_finish_reason = read_stop_reason(event.stopReason or "", has_tool_calls=self._has_tool_calls)
        self._finished = True
        yield ChoiceFinished(0, finish_reason, upstream_finish_reason)

    def _report_usage(self, event: _StreamEvent, payload: bytes) -> Iterator[Event]:
        self.done = self._finished
        usage = read_usage(event.usage, event.serviceTier)
        if usage is not None:
            yield UsageReported(usage)


def _new_part(delta: _Delta) -> Part | None:
    if delta.text is not None or delta.citation != NULL:
        return Text("")
    if delta.reasoningContent is not None:
        return Reasoning("")
    return None


def _read_payload(payload: bytes) -> tuple[_StreamEvent, bytes]:
    for attempt in (payload, repair_unicode(payload)):
        try:
            return _decode_event(attempt), attempt
        except DECODE_ERRORS as decode_error:
            last_error = decode_error
    raise InvalidUpstreamResponse(f"The engine's event is not one of ConverseStream: {last_error}.")


def _decode_citation(raw: Raw) -> Citation:
    try:
        return read_citation(raw)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's citation cannot be read: {decode_error}.") from None
