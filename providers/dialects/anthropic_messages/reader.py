"""A stream of /v1/messages as meaning.

Source: https://docs.claude.com/en/docs/build-with-claude/streaming, read 2026-11; and streams recorded of its hosts.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.anthropic_errors import read_told_error
from providers.chat import Citation, Opaque, Part, Reasoning, Seal, Text, ToolCall
from providers.dialects.anthropic_messages.blocks import is_object, is_unparsed, read_block, read_input
from providers.dialects.anthropic_messages.seals import CallSeal, read_citation, read_seal
from providers.dialects.anthropic_messages.usage import Counts, as_usage, later, read_counts, read_reason, read_tier
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Opened, Started
from providers.wire import NULL, UNREADABLE, Body, Frames, mended


class _Message(Struct):
    model: str = ""
    usage: Raw = NULL


class _Grown(Struct):
    """What came of a block, or, at the end, of the message."""

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
    delta: _Grown | None = None
    message: _Message | None = None
    content_block: Raw = NULL
    usage: Raw = NULL


_event = msgspec.json.Decoder(_Event)
_object = msgspec.json.Decoder(dict[str, Raw])


class _Open:
    """A block that has begun. `part` None: it is none, but carries the seal of one. `at`: the part's place in the answer.

    `given`: of a call, the arguments that came with its beginning. `pieces`, `fields`: of a block that only Anthropic has, what came after.
    """

    __slots__ = ("at", "citations", "fields", "given", "grown", "part", "pieces", "signature")

    def __init__(self, at: int, part: Part | None, given: str = "") -> None:
        self.at = at
        self.part = part
        self.grown = False
        self.signature = ""
        self.citations: list[Citation] = []
        self.given = given
        self.pieces: list[str] = []
        self.fields: dict[str, Raw] = {}


class EventReader:
    """See providers.dialect.Reader. A block that only Anthropic has is told when it is whole: its input comes in pieces."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._started = False
        self._finished = False
        self._parts = 0
        self._open: dict[int, _Open] = {}
        self._counts: Counts | None = None
        self._seals: dict[str, Seal] = {}
        # A call's end waits for the block after it, which may carry its seal.
        self._ending: tuple[int, str] | None = None

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            yield from self._events(data)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did."""
        for data in self._frames.end():
            try:
                yield from self._events(data)
            except Garbled:
                # Half an event is none, and must not cost the caller an answer that is whole.
                break
        if not self._finished:
            raise CutShort("The engine ended its answer midway: no stop reason came.")

    def _events(self, data: bytes) -> Iterable[Event]:
        """No generator, which would cost as much as all else that a piece of text does."""
        if self.done:
            return ()
        try:
            told = _event.decode(data)
        except UNREADABLE:
            if data.strip() == b"[DONE]":
                self.done = True
                return ()
            data = mended(data)
            told = _decoded(data)
        match told.type:
            case "content_block_delta":
                block = self._open.get(told.index)
                if block is None or told.delta is None:
                    raise Garbled(f"The engine sent a piece of block {told.index}, which has not begun or has ended.")
                return self._grow(block, told.delta, data)
            case "content_block_start":
                return self._begin(told)
            case "content_block_stop":
                block = self._open.pop(told.index, None)
                return () if block is None else self._close(block)
            case "message_start":
                return self._start(told.message or _Message())
            case "message_delta":
                return self._finish(told)
            case "message_stop":
                self.done = True
            case "ping":
                pass
            case _:
                error = read_told_error(Body.read_reply(data))
                if error is not None:
                    raise error
        return ()

    def _start(self, message: _Message) -> Iterator[Event]:
        """Some vendors tell it twice; the second tells nothing new."""
        if self._started:
            return
        self._started = True
        counts = read_counts(message.usage)
        yield Started(message.model, service_tier=read_tier(counts))
        yield from self._count(counts)

    def _count(self, counts: Counts | None) -> Iterator[Event]:
        if counts is None:
            return
        self._counts = later(self._counts, counts)
        usage = as_usage(self._counts)
        if usage is not None:
            yield Counted(usage)

    def _begin(self, told: _Event) -> Iterator[Event]:
        try:
            part = read_block(told.content_block)
        except UNREADABLE as fault:
            raise _garbled(fault) from None
        if isinstance(part, CallSeal):
            self._seals[part.call] = Seal(part.origin, part.data)
            self._open[told.index] = _Open(-1, None)
            return
        yield from self._end_call()
        given = ""
        if isinstance(part, ToolCall):
            given = "" if part.arguments == "{}" else part.arguments
            part = replace(part, arguments="", seal=self._seals.pop(part.id, None))
        opened = self._open[told.index] = _Open(self._parts, part, given)
        self._parts += 1
        if not isinstance(part, Opaque):
            yield Opened(0, opened.at, part)

    def _grow(self, block: _Open, delta: _Grown, data: bytes) -> tuple[Event, ...]:
        text: str | None
        match block.part:
            case Text():
                text = delta.text
                if delta.citation != NULL:
                    block.citations.append(_citation(delta.citation))
            case Reasoning():
                text = delta.thinking
                block.signature += delta.signature or ""
            case ToolCall():
                text = delta.partial_json
                if text and not block.grown and is_unparsed(text):
                    block.given = read_input(Raw(text.encode()))
                    return ()
            case Opaque():
                _grow_opaque(block, delta, data)
                return ()
            case _:
                return ()
        if not text:
            return ()
        block.grown = True
        return (Delta(0, block.at, text),)

    def _close(self, block: _Open) -> Iterator[Event]:
        match block.part:
            case Text():
                yield Closed(0, block.at, citations=tuple(block.citations))
            case Reasoning():
                yield Closed(0, block.at, read_seal(block.signature))
            case ToolCall():
                if not block.grown:
                    yield Delta(0, block.at, block.given or "{}")
                self._ending = block.at, block.part.id
            case Opaque():
                yield Opened(0, block.at, _whole(block.part, block))
                yield Closed(0, block.at)
            case _:
                pass

    def _end_call(self) -> Iterator[Event]:
        if self._ending is not None:
            at, id = self._ending
            self._ending = None
            yield Closed(0, at, self._seals.pop(id, None))

    def _finish(self, told: _Event) -> Iterator[Event]:
        delta = told.delta
        if delta is not None and delta.stop_reason is not None and not self._finished:
            self._finished = True
            for index in sorted(self._open):
                yield from self._close(self._open.pop(index))
                yield from self._end_call()
            yield from self._end_call()
            reason, own = read_reason(delta.stop_reason)
            yield Finished(0, reason, own, delta.stop_sequence)
        yield from self._count(read_counts(told.usage))


def _decoded(data: bytes) -> _Event:
    try:
        return _event.decode(data)
    except UNREADABLE as fault:
        raise _garbled(fault) from None


def _garbled(fault: Exception) -> Garbled:
    return Garbled(f"The engine's event is not one of a stream of messages: {fault}.")


def _citation(raw: Raw) -> Citation:
    try:
        return read_citation(raw)
    except UNREADABLE as fault:
        raise _garbled(fault) from None


def _grow_opaque(block: _Open, delta: _Grown, data: bytes) -> None:
    """`input` comes in pieces; any other field of a delta takes its place in the block."""
    if delta.partial_json is not None:
        block.pieces.append(delta.partial_json)
    else:
        told = _object.decode(_object.decode(data)["delta"])
        block.fields.update({key: value for key, value in told.items() if key != "type"})


def _whole(part: Opaque, block: _Open) -> Opaque:
    if not block.pieces and not block.fields:
        return part
    fields = {**_object.decode(part.raw), **block.fields}
    written = "".join(block.pieces)
    if is_object(written):
        fields["input"] = Raw(written.encode())
    return Opaque(part.origin, Raw(msgspec.json.encode(fields)))
