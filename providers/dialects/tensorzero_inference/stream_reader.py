"""Streams of POST /inference as events, as they were recorded."""

from collections.abc import Iterator

import msgspec

from providers.canonical.chat import Part, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamFailed
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.sse import SSEDecoder
from providers.dialects.tensorzero_inference.finish_reasons import read_finish_reason
from providers.dialects.tensorzero_inference.opaque_states import CallState
from providers.dialects.tensorzero_inference.read_response import read_state, read_unknown_block
from providers.dialects.tensorzero_inference.response_schema import WireBlock, WireChunk
from providers.dialects.tensorzero_inference.usage import read_usage

_decode = msgspec.json.Decoder(WireChunk).decode


class InferenceStreamReader:
    """Implements providers.dialect.StreamReader."""

    def __init__(self) -> None:
        self.done = False
        self._frames = SSEDecoder()
        self._started = False
        self._finished = False
        # The index of each open part, by the type and the id of its block.
        self._open: dict[tuple[str, str], int] = {}
        self._part_count = 0

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            yield from self._read_chunk(data)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if no finish reason came."""
        for data in self._frames.finish():
            yield from self._read_chunk(data)
        if not self._finished:
            raise StreamTruncated("The response ended midway: no finish reason came.")

    def _read_chunk(self, data: bytes) -> Iterator[Event]:
        if self.done or data.strip() == b"[DONE]":
            self.done = True
            return
        try:
            chunk = _decode(data)
        except DECODE_ERRORS as fault:
            raise InvalidUpstreamResponse(f"This is no chunk of /inference: {fault}.") from None
        if chunk.error != NULL:
            raise UpstreamFailed("The response ended with an error.")
        if not self._started:
            self._started = True
            yield ResponseStarted(chunk.variant_name)
        for block in chunk.content or ():
            yield from self._read_block(block)
        if chunk.raw:
            yield from self._read_text("raw", "", Text(""), chunk.raw)
        if chunk.finish_reason is not None and not self._finished:
            self._finished = True
            for index in self._open.values():
                yield PartFinished(0, index)
            self._open.clear()
            yield ChoiceFinished(0, read_finish_reason(chunk.finish_reason) or "stop")
        usage = read_usage(chunk.usage)
        if usage is not None:
            yield UsageReported(usage)

    def _read_block(self, block: WireBlock) -> Iterator[Event]:
        id = block.id or ""
        match block.type:
            case "text":
                yield from self._read_text("text", id, Text(""), block.text or "")
            case "thought":
                yield from self._read_text("thought", id, Reasoning(""), block.text or "")
                state = read_state(block.signature)
                if state is not None:
                    yield PartFinished(0, self._open.pop(("thought", id)), state)
            case "tool_call":
                yield from self._read_text("tool_call", id, ToolCall(id, block.raw_name or "", ""), block.raw_arguments or "")
            case _:
                yield from self._read_unknown(block)

    def _read_unknown(self, block: WireBlock) -> Iterator[Event]:
        """The signature of a call comes before the call, or when it is complete."""
        unknown = read_unknown_block(block)
        if not isinstance(unknown, CallState):
            yield PartStarted(0, self._part_count, unknown)
            yield PartFinished(0, self._part_count)
            self._part_count += 1
        elif ("tool_call", unknown.call_id) in self._open:
            yield PartFinished(0, self._open.pop(("tool_call", unknown.call_id)), unknown.state)
        else:
            yield from self._read_text("tool_call", unknown.call_id, ToolCall(unknown.call_id, "", "", opaque_state=unknown.state), "")

    def _read_text(self, type: str, id: str, part: Part, text: str) -> Iterator[Event]:
        index = self._open.get((type, id))
        if index is None:
            index = self._open[type, id] = self._part_count
            self._part_count += 1
            yield PartStarted(0, index, part)
        if text:
            yield PartDelta(0, index, text)
