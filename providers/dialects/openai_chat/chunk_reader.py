"""A stream of OpenAI chat as events."""

from collections.abc import Iterator
from typing import Any

from providers.chat import Citation, Opaque, Reasoning, Refusal, Seal, Text, ToolCall
from providers.dialects.openai_chat.answers import usage_of
from providers.dialects.openai_chat.calls import begins, is_whole, read_seal
from providers.dialects.openai_chat.citations import read_annotations
from providers.dialects.openai_chat.details import TEXTS, is_placed, own_seal, read_detail, read_entries, text_kind, text_of
from providers.dialects.openai_chat.endings import read_ending, read_service_tier
from providers.dialects.openai_chat.shapes import Call, Function, Said, arguments, call_id, pieces, read_answer, seconds
from providers.dialects.openai_chat.sources import read_sources
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.wire import NULL, Frames

_NO_FUNCTION = Function()
_EMPTY = {Text: Text(""), Reasoning: Reasoning(""), Refusal: Refusal("")}
_KINDS = {"text": Text, "reasoning": Reasoning, "refusal": Refusal}


class ChunkReader:
    """See providers.dialect.Reader. What comes for a choice that has finished is passed over."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._started = False
        self._finished = False
        self._choices: dict[int, _Growing] = {}
        self._sources: tuple[Citation, ...] = ()

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            if data[:1] != b"{" and data.strip() == b"[DONE]":
                self.done = True
            if self.done:
                return
            yield from self._read(data)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a frame at the end is none."""
        for data in self._frames.end():
            if self.done or data.strip() == b"[DONE]":
                break
            try:
                events = self._read(data)
            except Garbled:
                break
            yield from events
        if not self._finished:
            raise CutShort("The engine ended its answer midway: no finish reason came.")
        for growing in self._choices.values():
            yield from growing.close()

    def _read(self, data: bytes) -> list[Event]:
        told = read_answer(data)
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(
                Started(told.model or "", seconds(told.created), told.system_fingerprint or None, read_service_tier(told.service_tier))
            )
        if told.search_results is not NULL or told.citations is not NULL:
            self._sources = read_sources(told.search_results, told.citations)
        for choice in told.choices or ():
            index = choice.index or 0
            growing = self._choices.get(index)
            if growing is None:
                growing = self._choices[index] = _Growing(index)
            elif growing.finished:
                continue
            said = choice.delta or choice.message
            if said is not None:
                growing.say(said, events)
            if choice.text and said is None:  # Together tells `text` beside the delta that holds it
                growing.grow(Text, choice.text, events)
            if choice.logprobs is not None and choice.logprobs.content is not None:
                events.append(Logprobs(index, tuple(choice.logprobs.content)))
            if choice.finish_reason:
                reason, word, stop_sequence = read_ending(choice)
                growing.finished = self._finished = True
                growing.cite(self._sources)
                events += growing.close()
                events.append(Finished(index, reason or "stop", word, stop_sequence))
        if told.usage is not NULL or told.x_groq is not NULL:
            usage = usage_of(told)
            if usage is not None:
                events.append(Counted(usage))
        return events


class _OpenCall:
    __slots__ = ("at", "closed", "fragments", "id", "seal")

    def __init__(self, at: int, id: str | None) -> None:
        self.at = at
        self.id = id
        self.fragments: list[str] = []
        self.seal: Seal | None = None
        self.closed = False


class _Growing:
    """A choice as it comes: at most one text, reasoning or refusal is open, and any number of calls."""

    __slots__ = (
        "_at",
        "_before",
        "_calls",
        "_citations",
        "_cited",
        "_count",
        "_entry",
        "_index",
        "_kind",
        "_latest",
        "_length",
        "_seal",
        "finished",
    )

    def __init__(self, index: int) -> None:
        self.finished = False
        self._index = index
        self._count = 0
        self._kind: type[Text | Reasoning | Refusal] | None = None
        self._at = -1
        # Of the content: characters in all, and before the open text.
        self._length = 0
        self._before = 0
        self._citations: list[Citation] = []
        self._cited = False
        self._seal: Seal | None = None
        # The engine's own entry of the reasoning that is open, without its text.
        self._entry: dict[str, Any] = {}
        self._calls: dict[int, _OpenCall] = {}
        self._latest: _OpenCall | None = None

    def say(self, said: Said, events: list[Event]) -> None:
        details = () if said.reasoning_details is NULL else read_entries(said.reasoning_details)
        reasoning = said.reasoning_content or said.reasoning
        # An engine that tells it in details too tells there what belongs together.
        if reasoning and not any(text_kind(entry) and text_of(entry) and not is_placed(entry) for entry in details):
            self.grow(Reasoning, reasoning, events)
        for entry in details:
            if text_kind(entry) and not is_placed(entry):
                self._own_detail(entry, events)
            else:
                self._detail(entry, events)
        content = said.content
        if content:
            if content.__class__ is str:
                self.grow(Text, content, events)  # pyright: ignore[reportArgumentType]
            else:
                for kind, text in pieces(content):
                    self.grow(_KINDS[kind], text, events)
        if said.annotations is not NULL:
            self._citations += read_annotations(said.annotations, self._before if self._kind is Text else self._length)
            self._cited = self._cited or bool(self._citations)
        if said.refusal:
            self.grow(Refusal, said.refusal, events)
        if said.tool_calls:
            for at, call in enumerate(said.tool_calls):
                self._call(at if call.index is None else call.index, call, events)
        elif said.function_call is not None:  # llama-cpp-python tells a call under both names
            self._call(0, Call(function=said.function_call), events)

    def grow(self, kind: type[Text | Reasoning | Refusal], text: str, events: list[Event]) -> None:
        if self._kind is not kind:
            self._part_ways(events)
            self._kind = kind
            self._before = self._length
            self._at = self._count
            self._count += 1
            events.append(Opened(self._index, self._at, _EMPTY[kind]))
        if kind is Text:
            self._length += len(text)
        events.append(Delta(self._index, self._at, text))

    def _own_detail(self, entry: dict[str, Any], events: list[Event]) -> None:
        """A piece of an engine's own entry: of one type and index, they are one. Its seal is known when it closes."""
        text, key = text_of(entry), (entry["type"], entry.get("index"))
        if self._kind is not Reasoning and not text:
            self._detail(entry, events)  # a signature that came after all else
            return
        if self._entry and key != (self._entry["type"], self._entry.get("index")):
            self._part_ways(events)
        if text:
            self.grow(Reasoning, text, events)
        self._entry |= {name: value for name, value in entry.items() if name != TEXTS[entry["type"]] and value is not None}
        self._seal = own_seal(self._entry)

    def _detail(self, entry: dict[str, Any], events: list[Event]) -> None:
        """A signature seals the reasoning that is open; what stands by itself is a part of its own, and here comes last.

        A gateway like ours tells seals at the end, of reasoning that is closed by then: they are for whoever collects the whole.
        """
        part = read_detail(entry).part
        if isinstance(part, Reasoning) and self._kind is Reasoning and part.seal is not None and part.text:
            self._seal = part.seal
        elif isinstance(part, Opaque) or (part.seal is not None and not part.text):
            self._part_ways(events)
            events += (Opened(self._index, self._count, part), Closed(self._index, self._count))
            self._count += 1

    def _call(self, number: int, call: Call, events: list[Event]) -> None:
        function = call.function or _NO_FUNCTION
        custom = call.custom
        known = self._calls.get(number)
        name = function.name if custom is None else custom.name
        fragment = arguments(function) if custom is None else custom.input or ""
        if known is None or begins(known.id, known.fragments, call.id, name, fragment):
            if known is not None:
                self._close_call(known, events)
            self._part_ways(events)
            known = self._calls[number] = self._latest = _OpenCall(self._count, call.id)
            self._count += 1
            events.append(Opened(self._index, known.at, ToolCall(call_id(call.id), name or "", "", custom=custom is not None)))
        if call.extra_content is not NULL:
            known.seal = read_seal(call.extra_content) or known.seal
        if fragment:
            if known.closed:
                if fragment.isspace():
                    return
                raise Garbled("The engine went on with a call whose arguments were whole.")
            known.fragments.append(fragment)
            events.append(Delta(self._index, known.at, fragment))

    def _part_ways(self, events: list[Event]) -> None:
        """Another part begins: what is open and can be known to be whole is closed."""
        if self._kind is not None:
            events.append(Closed(self._index, self._at, self._seal, tuple(self._citations) if self._kind is Text else ()))
            if self._kind is Text:
                self._citations.clear()
            self._kind = self._seal = None
            self._entry = {}
        # An engine may write calls in turns, or one after the other.
        if self._latest is not None and is_whole(self._latest.fragments):
            self._close_call(self._latest, events)
        self._latest = None

    def _close_call(self, call: _OpenCall, events: list[Event]) -> None:
        if not call.closed:
            call.closed = True
            events.append(Closed(self._index, call.at, call.seal))

    def cite(self, sources: tuple[Citation, ...]) -> None:
        """Where the text itself cites nothing."""
        if sources and self._length and not self._cited:
            self._citations += sources

    def close(self) -> list[Event]:
        """Closes every part that is open, once."""
        events: list[Event] = []
        if self._citations and self._kind is not Text:
            # They came without the text that they are about.
            self._part_ways(events)
            self._kind, self._at = Text, self._count
            self._count += 1
            events.append(Opened(self._index, self._at, Text("")))
        self._part_ways(events)
        for call in sorted(self._calls.values(), key=lambda call: call.at):
            self._close_call(call, events)
        return events
