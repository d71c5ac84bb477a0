"""The events of a streaming response, in no vendor's format: assembled to a complete response, and made from one."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.chat import ChatResponse, Choice, Citation, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage


class ResponseStarted(Struct, frozen=True):
    """The first event of a stream, once."""

    model: str
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None


class PartStarted(Struct, frozen=True):
    """A part of a choice begins."""

    choice: int
    index: int
    part: Part  # what is known of it, mostly with an empty text; an Opaque part is complete


class PartDelta(Struct, frozen=True):
    """More of an open part: text, or a fragment of a tool call's arguments."""

    choice: int
    index: int
    text: str


class PartFinished(Struct, frozen=True):
    """A part is complete; `opaque_state` and `citations` belong to it.

    Several parts of a choice may be open at once: some engines interleave tool calls. All are finished before their choice finishes.
    """

    choice: int
    index: int
    opaque_state: OpaqueState | None = None
    citations: tuple[Citation, ...] = ()


class Logprobs(Struct, frozen=True):
    """Log probabilities of the latest tokens of a choice: more entries of OpenAI's `content` list."""

    choice: int
    entries: tuple[Raw, ...]


class ChoiceFinished(Struct, frozen=True):
    """A choice is complete, with all its parts. See providers.canonical.chat.Choice."""

    choice: int
    reason: str
    upstream_finish_reason: str | None = None
    stop_sequence: str | None = None


class UsageReported(Struct, frozen=True):
    """The usage so far. Each event replaces the one before; the last is that of the complete response."""

    usage: Usage


Event = ResponseStarted | PartStarted | PartDelta | PartFinished | Logprobs | ChoiceFinished | UsageReported


class ResponseAssembler:
    """Assembles a complete response from its events: feed() each, then finish()."""

    def __init__(self) -> None:
        self._started = ResponseStarted(model="")
        self._usage: Usage | None = None
        self._parts: dict[int, dict[int, Part]] = {}
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._logprobs: dict[int, list[Raw]] = {}
        self._finished_parts: dict[tuple[int, int], PartFinished] = {}
        self._finished_choices: dict[int, ChoiceFinished] = {}

    def feed(self, event: Event) -> None:
        match event:
            case ResponseStarted():
                self._started = event
            case PartStarted():
                self._parts.setdefault(event.choice, {})[event.index] = event.part
            case PartDelta():
                self._texts.setdefault((event.choice, event.index), []).append(event.text)
            case PartFinished():
                if event.opaque_state is not None or event.citations:
                    self._finished_parts[event.choice, event.index] = event
            case Logprobs():
                self._logprobs.setdefault(event.choice, []).extend(event.entries)
            case ChoiceFinished():
                self._finished_choices[event.choice] = event
            case UsageReported():
                self._usage = event.usage
            case _:
                assert_never(event)

    def finish(self) -> ChatResponse:
        indexes = sorted({*self._parts, *self._finished_choices, *self._logprobs})
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
        finished = self._finished_choices.get(index)
        return Choice(
            parts=tuple(self._part(index, at, parts[at]) for at in sorted(parts)),
            finish_reason=None if finished is None else finished.reason,
            logprobs=None if logprobs is None else tuple(logprobs),
            upstream_finish_reason=None if finished is None else finished.upstream_finish_reason,
            stop_sequence=None if finished is None else finished.stop_sequence,
        )

    def _part(self, choice: int, part_index: int, part: Part) -> Part:
        with_text = _with_text(part, "".join(self._texts.get((choice, part_index), ())))
        finished = self._finished_parts.get((choice, part_index))
        return with_text if finished is None else _with_finish(with_text, finished)


def assemble_response(events: Iterable[Event]) -> ChatResponse:
    """The complete response of a stream's events."""
    assembler = ResponseAssembler()
    for event in events:
        assembler.feed(event)
    return assembler.finish()


def response_events(response: ChatResponse) -> Iterator[Event]:
    """The events of a non-streaming response: one delta a part. `assemble_response(response_events(r)) == r`."""
    yield ResponseStarted(response.model, response.created, response.system_fingerprint, response.service_tier)
    for index, choice in enumerate(response.choices):
        logprobs = choice.logprobs
        for part_index, part in enumerate(choice.parts):
            start, text, finished = _split_part(part, index, part_index)
            yield PartStarted(index, part_index, start)
            if text:
                yield PartDelta(index, part_index, text)
            if logprobs is not None and isinstance(part, Text):
                # While the text to which they belong is open: a Responses stream has no field for them after it.
                yield Logprobs(index, logprobs)
                logprobs = None
            yield finished
        if logprobs is not None:
            yield Logprobs(index, logprobs)
        if choice.finish_reason is not None:
            yield ChoiceFinished(index, choice.finish_reason, choice.upstream_finish_reason, choice.stop_sequence)
    if response.usage is not None:
        yield UsageReported(response.usage)


def _with_text(part: Part, text: str) -> Part:
    match part:
        case Text() | Reasoning() | Refusal():
            return replace(part, text=part.text + text)
        case ToolCall():
            return replace(part, arguments=part.arguments + text)
        case Opaque():
            return part
        case _:
            assert_never(part)


def _with_finish(part: Part, finished: PartFinished) -> Part:
    match part:
        case Text():
            return replace(part, citations=(*part.citations, *finished.citations))
        case Reasoning() | ToolCall():
            return part if finished.opaque_state is None else replace(part, opaque_state=finished.opaque_state)
        case Refusal() | Opaque():
            return part
        case _:
            assert_never(part)


def _split_part(part: Part, choice: int, part_index: int) -> tuple[Part, str, PartFinished]:
    match part:
        case Text():
            return replace(part, text="", citations=()), part.text, PartFinished(choice, part_index, citations=part.citations)
        case Reasoning():
            return replace(part, text="", opaque_state=None), part.text, PartFinished(choice, part_index, part.opaque_state)
        case Refusal():
            return Refusal(""), part.text, PartFinished(choice, part_index)
        case ToolCall():
            return replace(part, arguments="", opaque_state=None), part.arguments, PartFinished(choice, part_index, part.opaque_state)
        case Opaque():
            return part, "", PartFinished(choice, part_index)
        case _:
            assert_never(part)
