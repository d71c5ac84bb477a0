"""CallReader: reads the calls that a model writes in its text, where its tools were described to it (emulated_tools.py)."""

import re
from collections.abc import Generator, Iterable, Iterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.emulation.emulated_tools import CALL_BEGIN, CALL_END, EmulatedTools
from providers.canonical.chat import Text, ToolCall
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.tool_calls import is_json_object, new_call_id

# Of a call that is held back until it is complete. A longer one is passed on as the text that it came as.
_MAX_CALL_CHARS = 1_000_000
# Of one text. Behind so many everything is text: each of them costs a copy of what follows.
_MAX_TAGS = 256
# White space that is held back, as a call may follow, which is passed on without it.
_MAX_HELD_SPACE = 64
# A call that was cut off by the limit of tokens: with a name, and a part of its arguments.
_CUT_OFF = re.compile(r'\s*\{\s*"name"\s*:\s*"((?:[^"\\]|\\.){1,256})"\s*,\s*"(?:arguments|parameters)"\s*:\s*(\{.*)', re.DOTALL)


class _Call(Struct, frozen=True):
    """Models that were trained with other templates write `parameters` instead of `arguments`, or the arguments as a string."""

    name: str
    arguments: Raw = NULL
    parameters: Raw = NULL


_decode_call = msgspec.json.Decoder(_Call).decode
_decode_string = msgspec.json.Decoder(str).decode


class CallReader:
    """One per response: read() its events, in order. The parts of each choice are numbered anew, with the calls among them."""

    def __init__(self, tools: EmulatedTools) -> None:
        self._tools = tools
        self._choices: dict[int, _ReadChoice] = {}

    def read(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case ResponseStarted() | UsageReported():
                    yield event
                case _:
                    choice = self._choices.get(event.choice)
                    if choice is None:
                        choice = self._choices[event.choice] = _ReadChoice(event.choice, self._tools)
                    yield from choice.read(event)


class _ReadChoice:
    def __init__(self, index: int, tools: EmulatedTools) -> None:
        self._index = index
        self._tools = tools
        self._parts = 0
        self._numbers: dict[int, int] = {}  # of parts that are passed on, by the engine's numbers
        self._texts: dict[int, _ReadText] = {}
        self._has_calls = False

    def read(self, event: PartStarted | PartDelta | PartFinished | Logprobs | ChoiceFinished) -> Iterator[Event]:
        match event:
            case PartStarted(part=Text() as part):
                text = self._texts[event.index] = _ReadText(self._tools.is_demanded, part.phase)
                yield from self._pass_on(text, text.add(part.text))
            case PartStarted():
                self._has_calls |= isinstance(event.part, ToolCall)
                self._numbers[event.index] = self._next_number()
                yield replace(event, index=self._numbers[event.index])
            case PartDelta():
                if (text := self._texts.get(event.index)) is not None:
                    yield from self._pass_on(text, text.add(event.text))
                else:
                    yield replace(event, index=self._numbers[event.index])
            case PartFinished():
                if (text := self._texts.pop(event.index, None)) is not None:
                    yield from self._finish_text(text, event)
                else:
                    yield replace(event, index=self._numbers[event.index])
            case Logprobs():
                yield event
            case ChoiceFinished():
                is_ended_by_call = self._has_calls and event.reason == "stop"
                yield replace(event, reason="tool_calls") if is_ended_by_call else event

    def _pass_on(self, text: "_ReadText", read: Iterable[str | ToolCall]) -> Iterator[Event]:
        for each in read:
            if isinstance(each, str):
                if text.number is None:
                    text.number = self._next_number()
                    yield PartStarted(self._index, text.number, Text("", phase=text.phase))
                yield PartDelta(self._index, text.number, each)
                continue
            if text.number is not None:
                yield PartFinished(self._index, text.number)
                text.number = None
            number = self._next_number()
            self._has_calls = True
            yield PartStarted(self._index, number, replace(each, arguments=""))
            yield PartDelta(self._index, number, each.arguments)
            yield PartFinished(self._index, number)

    def _finish_text(self, text: "_ReadText", event: PartFinished) -> Iterator[Event]:
        yield from self._pass_on(text, text.finish())
        if text.number is None and not self._parts:  # an empty response stays one with an empty text
            text.number = self._next_number()
            yield PartStarted(self._index, text.number, Text("", phase=text.phase))
        if text.number is not None:
            yield replace(event, index=text.number)

    def _next_number(self) -> int:
        self._parts += 1
        return self._parts - 1


class _ReadText:
    """A text, of which add() and finish() give what is known so far: pieces of text and calls, in order."""

    def __init__(self, is_call_demanded: bool, phase: str | None = None) -> None:
        self.number: int | None = None  # of the part that its text is passed on as; None: no such part is open
        self.phase = phase  # see Text
        self._is_call_demanded = is_call_demanded
        self._held = ""  # what may be the beginning of a tag, with the white space before it
        self._call: list[str] | None = None  # the pieces of a call so far; None: outside of one
        self._call_chars = 0
        self._may_begin_bare = is_call_demanded
        self._is_bare = False  # the call has no tags, and is all of the text
        self._after_call = False
        self._tags_left = _MAX_TAGS

    def add(self, text: str) -> Iterator[str | ToolCall]:
        rest, self._held = self._held + text, ""
        while rest:
            rest = yield from self._read_text(rest) if self._call is None else self._read_in_call(rest, self._call)

    def finish(self) -> Iterator[str | ToolCall]:
        if self._call is not None:
            self._call.append(self._held)
            yield from self._end_call(self._call, is_complete=False)
        elif self._held:
            yield from self._text(self._held)
        self._held = ""

    def _read_text(self, text: str) -> Generator[str | ToolCall, None, str]:
        """Yields the text before a call.

        Returns what the call begins with, empty if none begins in this text.
        """
        if self._may_begin_bare:
            stripped = text.lstrip()
            if not stripped and len(text) < _MAX_HELD_SPACE:
                self._held = text
                return ""
            self._may_begin_bare = False
            if stripped.startswith("{"):
                self._call, self._is_bare = [], True
                return text
        begin = text.find(CALL_BEGIN) if self._tags_left else -1
        if begin >= 0:
            self._tags_left -= 1
            yield from self._text(text[:begin].rstrip())
            self._call = []
            return text[begin + len(CALL_BEGIN) :]
        kept = next((size for size in range(len(CALL_BEGIN) - 1, 0, -1) if text.endswith(CALL_BEGIN[:size])), 0)
        end = max(len(text[: len(text) - kept].rstrip()), len(text) - kept - _MAX_HELD_SPACE)
        self._held = text[end:]
        yield from self._text(text[:end])
        return ""

    def _read_in_call(self, text: str, call: list[str]) -> Generator[str | ToolCall, None, str]:
        """Collects a call until it ends. Returns what follows its end, empty if it does not end in this text."""
        end = -1 if self._is_bare else text.find(CALL_END)
        if end >= 0:
            call.append(text[:end])
            yield from self._end_call(call, is_complete=True)
            return text[end + len(CALL_END) :]
        split = len(text) if self._is_bare else max(0, len(text) - len(CALL_END) + 1)
        call.append(text[:split])
        self._held = text[split:]
        self._call_chars += split
        if self._call_chars > _MAX_CALL_CHARS:
            yield from self._end_call(call, is_complete=False)
        return ""

    def _end_call(self, pieces: list[str], *, is_complete: bool) -> Iterator[str | ToolCall]:
        """Yields the call, or its text if it is none. `is_complete` means that the closing tag came."""
        written = "".join(pieces)
        self._call, self._call_chars = None, 0
        call = _read_call(written) or (_read_cut_off_call(written) if self._is_call_demanded and not is_complete else None)
        if call is not None:
            self._after_call = True
            yield call
        else:
            yield written if self._is_bare else f"{CALL_BEGIN}{written}{CALL_END if is_complete else ''}"
        self._is_bare = False

    def _text(self, text: str) -> Iterator[str]:
        """Yields the text without the white space between a call and what follows it."""
        if self._after_call:
            text = text.lstrip()
        if text:
            self._after_call = False
            yield text


def _read_call(written: str) -> ToolCall | None:
    try:
        call = _decode_call(written.strip())
        raw = call.arguments if call.arguments != NULL else call.parameters
        arguments = "{}" if raw == NULL else bytes(raw).decode()
        if arguments.startswith('"'):
            arguments = _decode_string(arguments)
    except DECODE_ERRORS:
        return None
    return ToolCall(new_call_id(), call.name, arguments) if call.name and is_json_object(arguments) else None


def _read_cut_off_call(written: str) -> ToolCall | None:
    match = _CUT_OFF.match(written)
    return None if match is None else ToolCall(new_call_id(), _decode_string(f'"{match.group(1)}"'), match.group(2))
