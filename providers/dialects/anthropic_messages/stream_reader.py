"""A stream of /v1/messages as events.

Source: https://docs.claude.com/en/docs/build-with-claude/streaming, read 2026-11; and recorded streams of its hosts.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.chat import Citation, Opaque, OpaqueState, Part, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.sse import SSEDecoder
from providers.canonical.tool_calls import is_unparsed, read_arguments
from providers.dialects.anthropic.errors import find_anthropic_error
from providers.dialects.anthropic_messages.citations import read_citation
from providers.dialects.anthropic_messages.finish_reasons import read_stop_reason
from providers.dialects.anthropic_messages.opaque_states import CallState, read_signature
from providers.dialects.anthropic_messages.open_block import OpenBlock
from providers.dialects.anthropic_messages.read_response import read_block
from providers.dialects.anthropic_messages.usage import Counts, merge_counts, read_counts, read_tier, to_usage


class _Message(Struct):
    model: str = ""
    usage: Raw = NULL


class _Delta(Struct):
    """A delta of a block or, at the end, of the message."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Raw = NULL
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    message: _Message | None = None
    content_block: Raw = NULL
    usage: Raw = NULL


_event_decoder = msgspec.json.Decoder(_Event)
_EMPTY_BLOCK = Raw(b"{}")


class MessagesStreamReader:
    """Implements providers.dialect.StreamReader. A block that only Anthropic has is emitted when it is complete."""

    def __init__(self) -> None:
        self.done = False
        self._frames = SSEDecoder()
        self._started = False
        self._finished = False
        self._part_count = 0
        self._open_blocks: dict[int, OpenBlock] = {}
        self._counts: Counts | None = None
        self._call_states: dict[str, OpaqueState] = {}
        # The end of a call waits for the next block, which may carry the call's signature.
        self._pending_call_end: tuple[int, str] | None = None

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            yield from self._read_event(data)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the message did."""
        for data in self._frames.finish():
            try:
                yield from self._read_event(data)
            except InvalidUpstreamResponse:
                # An incomplete last event is ignored: it must not cost a complete message.
                break
        if not self._finished:
            raise StreamTruncated("The engine ended its answer midway: no stop reason came.")

    def _read_event(self, data: bytes) -> Iterable[Event]:
        """Returns tuples where it can: a generator would double the cost of a text delta."""
        if self.done:
            return ()
        try:
            event = _event_decoder.decode(data)
        except DECODE_ERRORS:
            if data.strip() == b"[DONE]":
                self.done = True
                return ()
            data = repair_unicode(data)
            event = _decode_event(data)
        match event.type:
            case "content_block_delta":
                delta = event.delta
                if delta is None:
                    return ()
                block = self._open_blocks.get(event.index)
                if (
                    block is None
                    or (delta.text and not isinstance(block.part, Text))
                    or (delta.thinking and not isinstance(block.part, Reasoning))
                ):
                    return self._read_unannounced_delta(event.index, delta, data)
                return self._read_delta(block, delta, data)
            case "content_block_start":
                return self._start_block(event)
            case "content_block_stop":
                block = self._open_blocks.pop(event.index, None)
                return () if block is None else self._close_block(block)
            case "message_start":
                return self._start_message(event.message or _Message())
            case "message_delta":
                return self._finish_message(event)
            case "message_stop":
                self.done = True
            case "ping":
                pass
            case _:
                error = find_anthropic_error(Body.read_response(data))
                if error is not None:
                    raise error
        return ()

    def _start_message(self, message: _Message) -> Iterator[Event]:
        """Ignores a second message_start, which some hosts send."""
        if self._started:
            return
        self._started = True
        counts = read_counts(message.usage)
        yield ResponseStarted(message.model, service_tier=read_tier(counts))
        yield from self._report_usage(counts)

    def _report_usage(self, counts: Counts | None) -> Iterator[Event]:
        if counts is None:
            return
        self._counts = merge_counts(self._counts, counts)
        usage = to_usage(self._counts)
        if usage is not None:
            yield UsageReported(usage)

    def _start_block(self, event: _Event) -> Iterator[Event]:
        if event.content_block in (NULL, _EMPTY_BLOCK):
            # Its deltas say what it is.
            return
        try:
            part = read_block(event.content_block)
        except DECODE_ERRORS as decode_error:
            raise _invalid_event(decode_error) from None
        if isinstance(part, CallState):
            self._call_states[part.call_id] = OpaqueState(part.origin, part.data)
            self._open_blocks[event.index] = OpenBlock(-1, None)
            return
        yield from self._close_pending_call()
        initial_arguments = ""
        if isinstance(part, ToolCall):
            initial_arguments = "" if part.arguments == "{}" else part.arguments
            part = replace(part, arguments="", opaque_state=self._call_states.pop(part.id, None))
        opened = self._open_blocks[event.index] = self._new_block(part, initial_arguments)
        if not isinstance(part, Opaque):
            yield PartStarted(0, opened.part_index, part)

    def _read_unannounced_delta(self, index: int, delta: _Delta, data: bytes) -> Iterator[Event]:
        """A piece of text in a block that did not begin, has ended, or began as something else: it begins a part of its own."""
        if delta.partial_json is not None or self._finished:
            raise InvalidUpstreamResponse(f"The engine sent a piece of block {index}, which has not begun or has ended.")
        part = Text("") if delta.text else Reasoning("") if delta.thinking or delta.signature else None
        if part is None:
            return
        if index in self._open_blocks:
            yield from self._close_block(self._open_blocks.pop(index))
        yield from self._close_pending_call()
        block = self._open_blocks[index] = self._new_block(part)
        yield PartStarted(0, block.part_index, part)
        yield from self._read_delta(block, delta, data)

    def _new_block(self, part: Part, initial_arguments: str = "") -> OpenBlock:
        block = OpenBlock(self._part_count, part, initial_arguments)
        self._part_count += 1
        return block

    def _read_delta(self, block: OpenBlock, delta: _Delta, data: bytes) -> tuple[Event, ...]:
        text: str | None
        match block.part:
            case Text():
                text = delta.text
                if delta.citation != NULL:
                    block.citations.append(_decode_citation(delta.citation))
            case Reasoning():
                text = delta.thinking
                block.signature += delta.signature or ""
            case ToolCall():
                text = delta.partial_json
                if text and not block.has_content and is_unparsed(text):
                    block.initial_arguments = read_arguments(Raw(text.encode()))
                    return ()
            case Opaque():
                block.collect_opaque(delta.partial_json, data)
                return ()
            case _:
                return ()
        if not text:
            return ()
        block.has_content = True
        return (PartDelta(0, block.part_index, text),)

    def _close_block(self, block: OpenBlock) -> Iterator[Event]:
        match block.part:
            case Text():
                yield PartFinished(0, block.part_index, citations=tuple(block.citations))
            case Reasoning():
                yield PartFinished(0, block.part_index, read_signature(block.signature))
            case ToolCall():
                if not block.has_content:
                    yield PartDelta(0, block.part_index, block.initial_arguments or "{}")
                self._pending_call_end = block.part_index, block.part.id
            case Opaque():
                yield PartStarted(0, block.part_index, block.assemble_opaque(block.part))
                yield PartFinished(0, block.part_index)
            case _:
                pass

    def _close_pending_call(self) -> Iterator[Event]:
        if self._pending_call_end is not None:
            part_index, call_id = self._pending_call_end
            self._pending_call_end = None
            yield PartFinished(0, part_index, self._call_states.pop(call_id, None))

    def _finish_message(self, event: _Event) -> Iterator[Event]:
        delta = event.delta
        if delta is not None and delta.stop_reason is not None and not self._finished:
            self._finished = True
            for index in sorted(self._open_blocks):
                yield from self._close_block(self._open_blocks.pop(index))
                yield from self._close_pending_call()
            yield from self._close_pending_call()
            finish_reason, upstream_finish_reason = read_stop_reason(delta.stop_reason)
            yield ChoiceFinished(0, finish_reason, upstream_finish_reason, delta.stop_sequence)
        yield from self._report_usage(read_counts(event.usage))


def _decode_event(data: bytes) -> _Event:
    try:
        return _event_decoder.decode(data)
    except DECODE_ERRORS as decode_error:
        raise _invalid_event(decode_error) from None


def _invalid_event(decode_error: Exception) -> InvalidUpstreamResponse:
    return InvalidUpstreamResponse(f"The engine's event is not one of a stream of messages: {decode_error}.")


def _decode_citation(raw: Raw) -> Citation:
    try:
        return read_citation(raw)
    except DECODE_ERRORS as decode_error:
        raise _invalid_event(decode_error) from None
