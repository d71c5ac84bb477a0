"""A stream of Cohere's chat as events."""

from collections.abc import Iterator
from typing import TypeVar, cast

from msgspec import Raw

from providers.canonical.chat import Citation, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.sse import SSEDecoder
from providers.dialects.cohere_chat.citations import read_citation
from providers.dialects.cohere_chat.finish_reasons import read_finish_reason
from providers.dialects.cohere_chat.logprobs import read_logprob
from providers.dialects.cohere_chat.response_schema import (
    TOOL_PLAN,
    Call,
    ContentBlock,
    EventDelta,
    MessageDelta,
    StreamEvent,
    decode_stream_event,
)
from providers.dialects.cohere_chat.usage import read_usage

T = TypeVar("T")

_EMPTY_MESSAGE = MessageDelta()


class CohereStreamReader:
    """Implements providers.dialect.StreamReader. Events after the end of the response are ignored."""

    def __init__(self) -> None:
        self.done = False
        self._frames = SSEDecoder()
        self._parser = _StreamParser()

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            yield from self._read_frame(data)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the response did. An incomplete last frame is ignored."""
        for data in self._frames.finish():
            try:
                events = list(self._read_frame(data))
            except InvalidUpstreamResponse:
                break
            yield from events
        if not self.done:
            raise StreamTruncated("The host ended its answer midway: no message-end came.")

    def _read_frame(self, data: bytes) -> Iterator[Event]:
        if self.done or (data[:1] != b"{" and data.strip() == b"[DONE]"):
            return
        yield from self._parser.read(decode_stream_event(data))
        self.done = self._parser.done


class _StreamParser:
    """Parses the events of one stream. At most one text, thinking or plan is open at a time; calls are open by their number.

    A text stays open until another part begins, so that citations which arrive after its end still belong to it.
    """

    def __init__(self) -> None:
        self.done = False
        self._started = False
        self._part_count = 0
        self._open_index = -1
        self._open_block: tuple[str, int] | None = None
        self._citations: list[Citation] = []
        # By the number of an open call: the index of its part, and whether any arguments arrived.
        self._open_calls: dict[int, tuple[int, bool]] = {}

    def read(self, event: StreamEvent) -> Iterator[Event]:
        if not self._started:
            self._started = True
            yield ResponseStarted("")
        delta = event.delta
        message = _EMPTY_MESSAGE if delta is None or delta.message is None else delta.message
        match event.type:
            case "tool-plan-delta":
                if message.tool_plan:
                    yield from self._append_text("plan", 0, message.tool_plan)
            case "tool-call-start" | "tool-call-delta":
                for call in _as_list(message.tool_calls):
                    yield from self._read_call(event.index, call, is_start=event.type == "tool-call-start")
            case "tool-call-end":
                yield from self._close_call(event.index)
            case "citation-start":
                for raw in _citation_list(message):
                    self._add_citation(raw)
            case "message-end":
                yield from self._finish_message(delta or EventDelta())
            case _:
                # content-start, content-delta, and what may come beside them: a text is kept whatever its event is called.
                for block in _as_list(message.content):
                    yield from self._read_content(event, block)

    def _read_content(self, event: StreamEvent, block: ContentBlock) -> Iterator[Event]:
        if block.thinking:
            yield from self._append_text("thinking", event.index, block.thinking)
        if block.text:
            yield from self._append_text("text", event.index, block.text)
            if event.logprobs is not None:
                yield Logprobs(0, (read_logprob(event.logprobs),))

    def _append_text(self, kind: str, index: int, text: str) -> Iterator[Event]:
        if self._open_block != (kind, index):
            yield from self._close_part()
            self._open_block = kind, index
            self._open_index = self._part_count
            self._part_count += 1
            yield PartStarted(0, self._open_index, Text("") if kind == "text" else Reasoning(""))
        yield PartDelta(0, self._open_index, text)

    def _close_part(self) -> Iterator[Event]:
        if self._open_block is None:
            return
        kind, _ = self._open_block
        self._open_block = None
        yield PartFinished(0, self._open_index, TOOL_PLAN if kind == "plan" else None, tuple(self._citations) if kind == "text" else ())
        self._citations.clear()

    def _add_citation(self, raw: Raw) -> None:
        """Drops a citation of a text that is closed already."""
        located = read_citation(raw)
        if located is None or self._open_block is None:
            return
        kind, index = self._open_block
        content_index, citation = located
        if kind == "text" and content_index in (None, index):
            self._citations.append(citation)

    def _read_call(self, number: int, call: Call, *, is_start: bool) -> Iterator[Event]:
        if is_start or number not in self._open_calls:
            yield from self._close_part()
            yield from self._close_call(number)
            self._open_calls[number] = self._part_count, False
            self._part_count += 1
            yield PartStarted(0, self._open_calls[number][0], ToolCall(call.id_or_new, call.function.name, ""))
        if call.function.arguments:
            index, _ = self._open_calls[number]
            self._open_calls[number] = index, True
            yield PartDelta(0, index, call.function.arguments)

    def _close_call(self, number: int) -> Iterator[Event]:
        if number not in self._open_calls:
            return
        index, has_arguments = self._open_calls.pop(number)
        if not has_arguments:
            yield PartDelta(0, index, "{}")
        yield PartFinished(0, index)

    def _finish_message(self, delta: EventDelta) -> Iterator[Event]:
        yield from self._close_part()
        for number in sorted(self._open_calls):
            yield from self._close_call(number)
        finish_reason, upstream_finish_reason = read_finish_reason(
            "ERROR" if delta.error else delta.finish_reason or "COMPLETE", delta.error
        )
        self.done = True
        yield ChoiceFinished(0, finish_reason, upstream_finish_reason)
        usage = read_usage(delta.usage)
        if usage is not None:
            yield UsageReported(usage)


def _as_list(value: T | list[T] | None) -> list[T]:
    if value is None:
        return []
    return cast("list[T]", value) if isinstance(value, list) else [value]


def _citation_list(message: MessageDelta) -> list[Raw]:
    """One citation, or none: the message of a start event has an empty list."""
    return [message.citations] if bytes(message.citations)[:1] == b"{" else []
