"""ResponseTrimmer: ends a response at a stop sequence, and passes on one tool call, where the target can do neither.

Where tools were described to the model, it reads their calls from the text before. Calls of functions that stand for tools for free text
become calls of those, and a summary of the conversation becomes a compaction.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from app.gateway.emulation.call_reader import CallReader
from app.gateway.emulation.compaction import SummaryCollector
from app.gateway.emulation.custom_tools import InputReader
from app.gateway.emulation.emulation import Emulation
from providers.canonical.chat import ChatResponse, Text, ToolCall
from providers.canonical.events import (
    ChoiceFinished,
    Event,
    Logprobs,
    PartDelta,
    PartFinished,
    PartStarted,
    ResponseStarted,
    UsageReported,
    assemble_response,
    response_events,
)


class ResponseTrimmer:
    """One per response: trim() its events, in order. Counts the calls that it withholds in `emulation`.

    `choices` says how many the response has.
    """

    def __init__(self, emulation: Emulation, choices: int) -> None:
        self.has_ended = False  # whether each of them was ended here, so that nothing more of the response is needed
        self._emulation = emulation
        self._choices_left = choices
        self._choices: dict[int, _TrimmedChoice] = {}
        self._call_reader = CallReader(emulation.tools) if emulation.tools is not None and emulation.tools.are_described else None
        self._collector = None if emulation.compaction is None else SummaryCollector(emulation.compaction)

    def trim(self, events: Iterable[Event]) -> Iterator[Event]:
        return self._trim(events) if self._collector is None else self._collector.collect(self._trim(events))

    def _trim(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events if self._call_reader is None else self._call_reader.read(events):
            match event:
                case ResponseStarted() | UsageReported():
                    yield event
                case _:
                    yield from self._trim_event(event)
            if self.has_ended:
                return

    def _trim_event(self, event: PartStarted | PartDelta | PartFinished | Logprobs | ChoiceFinished) -> Iterator[Event]:
        choice = self._choices.get(event.choice)
        if choice is None:
            choice = self._choices[event.choice] = _TrimmedChoice(event.choice, self._emulation)
        elif choice.has_ended:
            return
        yield from choice.trim(event)
        if choice.has_ended:
            self._choices_left -= 1
            self.has_ended = self._emulation.has_cut = not self._choices_left


def trim_response(response: ChatResponse, emulation: Emulation) -> ChatResponse:
    """A complete response, trimmed. Its usage stays: it is what was computed."""
    return assemble_response(ResponseTrimmer(emulation, len(response.choices) + 1).trim(response_events(response)))


class _TrimmedChoice:
    """One choice. Its parts are numbered anew, without the calls that are withheld."""

    def __init__(self, index: int, emulation: Emulation) -> None:
        self.has_ended = False  # at a stop sequence
        self._index = index
        self._emulation = emulation
        self._texts: dict[int, _HeldText] = {}
        self._inputs: dict[int, InputReader] = {}  # of calls whose arguments hold a free text
        self._open_parts: list[int] = []
        self._call: int | None = None
        self._withheld: list[int] = []

    def trim(self, event: PartStarted | PartDelta | PartFinished | Logprobs | ChoiceFinished) -> Iterator[Event]:
        match event:
            case PartStarted():
                yield from self._start(event)
            case PartDelta():
                if event.index in self._texts:
                    yield from self._cut(event.index, self._texts[event.index].add(event.text))
                elif event.index not in self._withheld:
                    reader = self._inputs.get(event.index)
                    text = event.text if reader is None else reader.add(event.text)
                    if text or reader is None:
                        yield PartDelta(self._index, self._number(event.index), text)
            case PartFinished():
                if event.index not in self._withheld:
                    yield from self._finish_part(event)
            case Logprobs() | ChoiceFinished():
                yield event

    def _start(self, event: PartStarted) -> Iterator[Event]:
        if isinstance(event.part, ToolCall) and event.part.name in self._emulation.tool_names:
            event = replace(event, part=replace(event.part, name=self._emulation.tool_names[event.part.name]))
        event = self._as_custom_call(event)
        if self._emulation.single_call and isinstance(event.part, ToolCall):
            if self._call is not None:
                self._withheld.append(event.index)
                self._emulation.withheld_calls += 1
                return
            self._call = event.index
        self._open_parts.append(event.index)
        if not self._emulation.stop or not isinstance(event.part, Text):
            yield PartStarted(self._index, self._number(event.index), event.part)
            return
        held = self._texts[event.index] = _HeldText(self._emulation.stop)
        yield PartStarted(self._index, self._number(event.index), replace(event.part, text=""))
        if event.part.text:
            yield from self._cut(event.index, held.add(event.part.text))

    def _as_custom_call(self, event: PartStarted) -> PartStarted:
        part, custom_tools = event.part, self._emulation.custom_tools
        if custom_tools is None or not isinstance(part, ToolCall) or part.custom or part.name not in custom_tools.formats:
            return event
        reader = self._inputs[event.index] = InputReader()
        return replace(event, part=replace(part, custom=True, arguments=reader.add(part.arguments)))

    def _cut(self, part: int, text: str) -> Iterator[Event]:
        """Passes on what a text has for the caller, and ends the choice if it has come to a stop sequence."""
        if text:
            yield PartDelta(self._index, self._number(part), text)
        matched = self._texts[part].matched
        if matched is not None:
            self.has_ended = True
            for index in self._open_parts:
                yield PartFinished(self._index, self._number(index))
            yield ChoiceFinished(self._index, "stop", None, matched)

    def _finish_part(self, event: PartFinished) -> Iterator[Event]:
        held = self._texts.pop(event.index, None)
        if held is not None and held.rest:
            yield PartDelta(self._index, self._number(event.index), held.rest)
        reader = self._inputs.pop(event.index, None)
        if reader is not None and (rest := reader.finish()):
            yield PartDelta(self._index, self._number(event.index), rest)
        self._open_parts.remove(event.index)
        yield PartFinished(self._index, self._number(event.index), event.opaque_state, event.citations)

    def _number(self, part: int) -> int:
        return part - sum(index < part for index in self._withheld) if self._withheld else part


class _HeldText:
    """A text whose end is held back while it may be the beginning of a stop sequence."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.rest = ""  # what is held back
        self.matched: str | None = None  # the stop sequence that the text has come to; None: to none
        self._stops = stops

    def add(self, text: str) -> str:
        """Returns what the caller may have by now of the text that was held back and this one."""
        text = self.rest + text
        matches = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if matches:  # the first to be complete: an engine that writes token by token ends there
            _, at, self.matched = min(matches)
            self.rest = ""
            return text[:at]
        kept = len(text) - max(_common_length(text, stop) for stop in self._stops)
        self.rest = text[kept:]
        return text[:kept]


def _common_length(text: str, stop: str) -> int:
    """Returns how many characters at the end of `text` are a beginning of `stop`."""
    return next((length for length in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:length])), 0)
