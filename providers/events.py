"""The meaning of a stream: what is said while an answer is made, and how it folds to the whole answer and unfolds from it."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Raw, Struct

from providers.chat import ChatResponse, Choice, Part, Reasoning, Refusal, Text, ToolCall, Usage


class Started(Struct, frozen=True):
    """The first event of a stream, once."""

    model: str
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None


class Opened(Struct, frozen=True):
    """A part of a choice begins. `part` as it stands at its beginning: text empty, or what is known already."""

    choice: int
    index: int
    part: Part


class Delta(Struct, frozen=True):
    """More of an open part: text, or a fragment of a call's arguments."""

    choice: int
    index: int
    text: str


class Logprobs(Struct, frozen=True):
    choice: int
    entries: tuple[Raw, ...]


class Finished(Struct, frozen=True):
    """A choice is complete; all its parts with it."""

    choice: int
    reason: str


class Counted(Struct, frozen=True):
    usage: Usage


Event = Started | Opened | Delta | Logprobs | Finished | Counted


class Fold:
    """A whole answer out of its events, as they come."""

    def __init__(self) -> None:
        self._started = Started(model="")
        self._usage: Usage | None = None
        self._parts: dict[int, dict[int, Part]] = {}
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._logprobs: dict[int, list[Raw]] = {}
        self._reasons: dict[int, str] = {}

    def feed(self, event: Event) -> None:
        match event:
            case Started():
                self._started = event
            case Opened():
                self._parts.setdefault(event.choice, {})[event.index] = event.part
            case Delta():
                self._texts.setdefault((event.choice, event.index), []).append(event.text)
            case Logprobs():
                self._logprobs.setdefault(event.choice, []).extend(event.entries)
            case Finished():
                self._reasons[event.choice] = event.reason
            case Counted():
                self._usage = event.usage
            case _:
                assert_never(event)

    def end(self) -> ChatResponse:
        indexes = sorted({*self._parts, *self._reasons, *self._logprobs})
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
        return Choice(
            parts=tuple(_grown(parts[at], "".join(self._texts.get((index, at), ()))) for at in sorted(parts)),
            finish_reason=self._reasons.get(index),
            logprobs=None if logprobs is None else tuple(logprobs),
        )


def fold(events: Iterable[Event]) -> ChatResponse:
    folding = Fold()
    for event in events:
        folding.feed(event)
    return folding.end()


def unfold(answer: ChatResponse) -> Iterator[Event]:
    """The events of an answer that came whole: one delta a part. `fold(unfold(a)) == a`."""
    yield Started(answer.model, answer.created, answer.system_fingerprint, answer.service_tier)
    for index, choice in enumerate(answer.choices):
        for at, part in enumerate(choice.parts):
            start, text = _shrunk(part)
            yield Opened(index, at, start)
            if text:
                yield Delta(index, at, text)
        if choice.logprobs is not None:
            yield Logprobs(index, choice.logprobs)
        if choice.finish_reason is not None:
            yield Finished(index, choice.finish_reason)
    if answer.usage is not None:
        yield Counted(answer.usage)


def _grown(part: Part, text: str) -> Part:
    match part:
        case Text():
            return Text(part.text + text)
        case Reasoning():
            return Reasoning(part.text + text)
        case Refusal():
            return Refusal(part.text + text)
        case ToolCall():
            return ToolCall(part.id, part.name, part.arguments + text)
        case _:
            assert_never(part)


def _shrunk(part: Part) -> tuple[Part, str]:
    match part:
        case Text():
            return Text(""), part.text
        case Reasoning():
            return Reasoning(""), part.text
        case Refusal():
            return Refusal(""), part.text
        case ToolCall():
            return ToolCall(part.id, part.name, ""), part.arguments
        case _:
            assert_never(part)
