"""The meaning of a stream: what is said while an answer is made, and how it folds to the whole answer and unfolds from it."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.chat import ChatResponse, Choice, Citation, Opaque, Part, Reasoning, Refusal, Seal, Text, ToolCall, Usage


class Started(Struct, frozen=True):
    """The first event of a stream, once."""

    model: str
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None


class Opened(Struct, frozen=True):
    """A part of a choice begins. `part` as it stands at its beginning: text empty, or what is known already. An Opaque one is whole."""

    choice: int
    index: int
    part: Part


class Delta(Struct, frozen=True):
    """More of an open part: text, or a fragment of a call's arguments."""

    choice: int
    index: int
    text: str


class Closed(Struct, frozen=True):
    """A part is whole, and this came with it. Parts of a choice may be open at the same time: calls that an engine writes in turns.

    Every part that was opened is closed before its choice finishes.
    """

    choice: int
    index: int
    seal: Seal | None = None
    citations: tuple[Citation, ...] = ()


class Logprobs(Struct, frozen=True):
    choice: int
    entries: tuple[Raw, ...]


class Finished(Struct, frozen=True):
    """A choice is complete; all its parts with it. See providers.chat.Choice."""

    choice: int
    reason: str
    told: str | None = None
    stop_sequence: str | None = None


class Counted(Struct, frozen=True):
    """What was used so far: each takes the place of the one before, and the last is the whole answer's."""

    usage: Usage


Event = Started | Opened | Delta | Closed | Logprobs | Finished | Counted


class Fold:
    """A whole answer out of its events, as they come."""

    def __init__(self) -> None:
        self._started = Started(model="")
        self._usage: Usage | None = None
        self._parts: dict[int, dict[int, Part]] = {}
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._logprobs: dict[int, list[Raw]] = {}
        self._closed: dict[tuple[int, int], Closed] = {}
        self._finished: dict[int, Finished] = {}

    def feed(self, event: Event) -> None:
        match event:
            case Started():
                self._started = event
            case Opened():
                self._parts.setdefault(event.choice, {})[event.index] = event.part
            case Delta():
                self._texts.setdefault((event.choice, event.index), []).append(event.text)
            case Closed():
                if event.seal is not None or event.citations:
                    self._closed[event.choice, event.index] = event
            case Logprobs():
                self._logprobs.setdefault(event.choice, []).extend(event.entries)
            case Finished():
                self._finished[event.choice] = event
            case Counted():
                self._usage = event.usage
            case _:
                assert_never(event)

    def end(self) -> ChatResponse:
        indexes = sorted({*self._parts, *self._finished, *self._logprobs})
        return ChatResponse(
            choices=tuple(self._choice(index) for index in indexes),
            model=self._started.model,
            created=self._started.created,
            usage=self._usage,
            system_fingerprint=self._started.system_fingerprint,
            service_tier=self._started.service_tier,
        )

    def _choice(self, index: int) -> Choice:
        parts = self._parts.get(index, {})
        logprobs = self._logprobs.get(index)
        finished = self._finished.get(index)
        return Choice(
            parts=tuple(self._part(index, at, parts[at]) for at in sorted(parts)),
            finish_reason=None if finished is None else finished.reason,
            logprobs=None if logprobs is None else tuple(logprobs),
            told=None if finished is None else finished.told,
            stop_sequence=None if finished is None else finished.stop_sequence,
        )

    def _part(self, choice: int, at: int, part: Part) -> Part:
        grown = _grown(part, "".join(self._texts.get((choice, at), ())))
        closed = self._closed.get((choice, at))
        return grown if closed is None else _closed(grown, closed)


def fold(events: Iterable[Event]) -> ChatResponse:
    folding = Fold()
    for event in events:
        folding.feed(event)
    return folding.end()


def unfold(answer: ChatResponse) -> Iterator[Event]:
    """The events of an answer that came whole: one delta a part. `fold(unfold(a)) == a`."""
    yield Started(answer.model, answer.created, answer.system_fingerprint, answer.service_tier)
    for index, choice in enumerate(answer.choices):
        logprobs = choice.logprobs
        for at, part in enumerate(choice.parts):
            start, text, closed = _shrunk(part, index, at)
            yield Opened(index, at, start)
            if text:
                yield Delta(index, at, text)
            if logprobs is not None and isinstance(part, Text):
                # While the text that they are about is open: after it, there is no place for them in a Responses stream.
                yield Logprobs(index, logprobs)
                logprobs = None
            yield closed
        if logprobs is not None:
            yield Logprobs(index, logprobs)
        if choice.finish_reason is not None:
            yield Finished(index, choice.finish_reason, choice.told, choice.stop_sequence)
    if answer.usage is not None:
        yield Counted(answer.usage)


def _grown(part: Part, text: str) -> Part:
    match part:
        case Text() | Reasoning() | Refusal():
            return replace(part, text=part.text + text)
        case ToolCall():
            return replace(part, arguments=part.arguments + text)
        case Opaque():
            return part
        case _:
            assert_never(part)


def _closed(part: Part, closed: Closed) -> Part:
    match part:
        case Text():
            return replace(part, citations=(*part.citations, *closed.citations))
        case Reasoning() | ToolCall():
            return part if closed.seal is None else replace(part, seal=closed.seal)
        case Refusal() | Opaque():
            return part
        case _:
            assert_never(part)


def _shrunk(part: Part, choice: int, at: int) -> tuple[Part, str, Closed]:
    match part:
        case Text():
            return replace(part, text="", citations=()), part.text, Closed(choice, at, citations=part.citations)
        case Reasoning():
            return replace(part, text="", seal=None), part.text, Closed(choice, at, part.seal)
        case Refusal():
            return Refusal(""), part.text, Closed(choice, at)
        case ToolCall():
            return replace(part, arguments="", seal=None), part.arguments, Closed(choice, at, part.seal)
        case Opaque():
            return part, "", Closed(choice, at)
        case _:
            assert_never(part)
