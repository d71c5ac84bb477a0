"""A stream of Cohere's chat as events: contents and calls by their index, citations while their text is open."""

from collections.abc import Iterator
from typing import TypeVar, cast

from msgspec import Raw

from providers.chat import Citation, Reasoning, Text, ToolCall
from providers.dialects.cohere_chat import shapes
from providers.dialects.cohere_chat.shapes import PLAN, Call, Grown, Piece, decoded
from providers.dialects.cohere_chat.tidings import read_citation, read_ending, read_usage, write_logprob
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.wire import Frames

T = TypeVar("T")

_NOTHING = Grown()


class EventReader:
    """See providers.dialect.Reader. What follows its end is passed over."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._saying = _Saying()

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            yield from self._read(data)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a frame at the end is none."""
        for data in self._frames.end():
            try:
                events = list(self._read(data))
            except Garbled:
                break
            yield from events
        if not self.done:
            raise CutShort("The host ended its answer midway: no message-end came.")

    def _read(self, data: bytes) -> Iterator[Event]:
        if self.done or (data[:1] != b"{" and data.strip() == b"[DONE]"):
            return
        yield from self._saying.read(decoded(data, shapes.read_event))
        self.done = self._saying.done


class _Saying:
    """At most one text, thinking or plan is open, and calls by their number. A text stays open until something else begins, so that

    citations that come after its end are still told with it.
    """

    def __init__(self) -> None:
        self.done = False
        self._started = False
        self._count = 0
        self._at = -1
        self._open: tuple[str, int] | None = None
        self._citations: list[Citation] = []
        # By their number, where the calls that are open stand, and whether any argument came.
        self._calls: dict[int, tuple[int, bool]] = {}

    def read(self, told: shapes.Event) -> Iterator[Event]:
        if not self._started:
            self._started = True
            yield Started("")
        delta = told.delta
        said = _NOTHING if delta is None or delta.message is None else delta.message
        match told.type:
            case "content-start" | "content-delta":
                for piece in _each(said.content):
                    yield from self._content(told, piece)
            case "tool-plan-delta":
                if said.tool_plan:
                    yield from self._grow("plan", 0, said.tool_plan)
            case "tool-call-start" | "tool-call-delta":
                for call in _each(said.tool_calls):
                    yield from self._call(told.index, call, begins=told.type == "tool-call-start")
            case "tool-call-end":
                yield from self._end_call(told.index)
            case "citation-start":
                for raw in _cited(said):
                    self._cite(raw)
            case "message-end":
                yield from self._end(delta or shapes.Delta())
            case _:
                pass

    def _content(self, told: shapes.Event, piece: Piece) -> Iterator[Event]:
        if piece.thinking:
            yield from self._grow("thinking", told.index, piece.thinking)
        if piece.text:
            yield from self._grow("text", told.index, piece.text)
            if told.logprobs is not None:
                yield Logprobs(0, (write_logprob(told.logprobs),))

    def _grow(self, kind: str, index: int, text: str) -> Iterator[Event]:
        if self._open != (kind, index):
            yield from self._close()
            self._open = kind, index
            self._at = self._count
            self._count += 1
            yield Opened(0, self._at, Text("") if kind == "text" else Reasoning(""))
        yield Delta(0, self._at, text)

    def _close(self) -> Iterator[Event]:
        if self._open is None:
            return
        kind, _ = self._open
        self._open = None
        yield Closed(0, self._at, PLAN if kind == "plan" else None, tuple(self._citations) if kind == "text" else ())
        self._citations.clear()

    def _cite(self, raw: Raw) -> None:
        """One about another text than the open one came too late for it."""
        read = read_citation(raw)
        if read is None or self._open is None:
            return
        kind, index = self._open
        at, citation = read
        if kind == "text" and at in (None, index):
            self._citations.append(citation)

    def _call(self, number: int, call: Call, *, begins: bool) -> Iterator[Event]:
        if begins or number not in self._calls:
            yield from self._close()
            yield from self._end_call(number)
            self._calls[number] = self._count, False
            self._count += 1
            yield Opened(0, self._calls[number][0], ToolCall(call.given_id, call.function.name, ""))
        if call.function.arguments:
            at, _ = self._calls[number]
            self._calls[number] = at, True
            yield Delta(0, at, call.function.arguments)

    def _end_call(self, number: int) -> Iterator[Event]:
        if number not in self._calls:
            return
        at, argued = self._calls.pop(number)
        if not argued:
            yield Delta(0, at, "{}")
        yield Closed(0, at)

    def _end(self, delta: shapes.Delta) -> Iterator[Event]:
        yield from self._close()
        for number in sorted(self._calls):
            yield from self._end_call(number)
        reason, word = read_ending("ERROR" if delta.error else delta.finish_reason or "COMPLETE", delta.error)
        self.done = True
        yield Finished(0, reason, word)
        usage = read_usage(delta.usage)
        if usage is not None:
            yield Counted(usage)


def _each(said: T | list[T] | None) -> list[T]:
    if said is None:
        return []
    return cast("list[T]", said) if isinstance(said, list) else [said]


def _cited(said: Grown) -> list[Raw]:
    """One, or none as a message has at its start: an empty list."""
    return [said.citations] if bytes(said.citations)[:1] == b"{" else []
