"""A stream of ConverseStream as meaning: AWS messages, in which text and reasoning begin with their first piece, untold.

Source: the service model of Bedrock Runtime in botocore 1.44 (ConverseStreamOutput), read 2026-11; recordings aws_bedrock/03 to 22.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.aws_events import EventStream, Message, read_failure
from providers.chat import Citation, Part, Reasoning, Seal, Text, ToolCall
from providers.dialects.bedrock_converse.answers import is_hosts
from providers.dialects.bedrock_converse.assembled import assembled
from providers.dialects.bedrock_converse.cited import read_citation
from providers.dialects.bedrock_converse.sealed import NAME, read_hidden
from providers.dialects.bedrock_converse.usage import read_reason, read_usage
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Opened, Started
from providers.wire import NULL, UNREADABLE, mended


class _Input(Struct):
    input: str = ""


class _Reasoning(Struct):
    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None


class _Delta(Struct):
    text: str | None = None
    toolUse: _Input | None = None
    reasoningContent: _Reasoning | None = None
    citation: Raw = NULL


class _ToolUse(Struct):
    toolUseId: str
    name: str
    type: str | None = None


class _Start(Struct):
    toolUse: _ToolUse | None = None


class _Told(Struct):
    contentBlockIndex: int = 0
    start: _Start | None = None
    delta: _Delta | None = None
    stopReason: str | None = None
    usage: Raw = NULL
    serviceTier: Raw = NULL


_told = msgspec.json.Decoder(_Told).decode


class _Payload(Struct):
    """What of an event makes a block that only Bedrock has."""

    start: dict[str, Any] = {}
    delta: dict[str, Any] = {}


_payload = msgspec.json.Decoder(_Payload).decode


class _Open:
    """A block that has begun. `at`: its part's place; None: it is none yet. `part` None: only Bedrock has it, and it is told when whole.

    `grown`: something of it came. `events`: of which such a block is put together.
    """

    __slots__ = ("at", "citations", "events", "grown", "hidden", "part", "signature")

    def __init__(self, part: Part | None) -> None:
        self.at: int | None = None
        self.part = part
        self.grown = False
        self.citations: list[Citation] = []
        self.signature = ""
        self.hidden = ""
        self.events: list[_Payload] = []


class ConverseReader:
    """See providers.dialect.Reader. `done`: its counts have come, which follow the end of the answer."""

    def __init__(self) -> None:
        self.done = False
        self._stream = EventStream()
        self._started = False
        self._finished = False
        self._called = False
        self._parts = 0
        self._open: dict[int, _Open] = {}
        self._reads: Mapping[str, Callable[[_Told, bytes], Iterator[Event]]] = {
            "contentBlockStart": self._begin,
            "contentBlockDelta": self._grow,
            "contentBlockStop": self._stop,
            "messageStop": self._finish,
            "metadata": self._count,
        }

    def feed(self, block: bytes) -> Iterator[Event]:
        for message in self._stream.feed(block):
            yield from self._read(message)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did."""
        yield from self.feed(b"")
        if not self._finished:
            raise CutShort("The engine ended its answer midway: no stop reason came.")

    def _read(self, message: Message) -> Iterator[Event]:
        failure = read_failure(message)
        if failure is not None:
            raise failure
        if not self._started:
            self._started = True
            yield Started("")
        read = self._reads.get(message.headers.get(":event-type", ""))
        if read is not None and not self.done:
            yield from read(*_decoded(message.payload))

    def _begin(self, told: _Told, payload: bytes) -> Iterator[Event]:
        yield from self._stop(told, payload)
        called = told.start.toolUse if told.start is not None else None
        if called is None or is_hosts(called.type):
            opened = self._open[told.contentBlockIndex] = _Open(None)
            opened.events.append(_payload(payload))
            return
        self._called = True
        opened = self._open[told.contentBlockIndex] = _Open(ToolCall(called.toolUseId, called.name, ""))
        yield self._opened(opened)

    def _opened(self, opened: _Open) -> Event:
        assert opened.part is not None
        opened.at = self._parts
        self._parts += 1
        return Opened(0, opened.at, opened.part)

    def _grow(self, told: _Told, payload: bytes) -> Iterator[Event]:
        delta = told.delta
        if delta is None:
            raise Garbled("The engine's event tells of a piece and has none.")
        block = self._open.get(told.contentBlockIndex)
        if block is None:
            if delta.toolUse is not None:
                raise Garbled("The engine sent a piece of a call that has not begun.")
            block = self._open[told.contentBlockIndex] = _Open(_kind(delta))
        text = ""
        match block.part:
            case Text():
                text = delta.text or ""
                if delta.citation != NULL:
                    block.citations.append(_cited(delta.citation))
            case Reasoning() if delta.reasoningContent is not None:
                text = delta.reasoningContent.text or ""
                block.signature += delta.reasoningContent.signature or ""
                block.hidden += delta.reasoningContent.redactedContent or ""
            case ToolCall() if delta.toolUse is not None:
                text = delta.toolUse.input
            case _:
                block.events.append(_payload(payload))
        if not text:
            return
        if block.at is None:
            yield self._opened(block)
        assert block.at is not None
        block.grown = True
        yield Delta(0, block.at, text)

    def _stop(self, told: _Told, payload: bytes) -> Iterator[Event]:
        block = self._open.pop(told.contentBlockIndex, None)
        if block is not None:
            yield from self._close(block)

    def _close(self, block: _Open) -> Iterator[Event]:
        match block.part:
            case ToolCall():
                assert block.at is not None
                if not block.grown:
                    yield Delta(0, block.at, "{}")
                yield Closed(0, block.at)
            case Reasoning() if block.hidden:
                yield from self._whole(read_hidden(block.hidden))
            case Reasoning() | Text():
                if block.at is None and (block.signature or block.citations):
                    yield self._opened(block)
                if block.at is not None:
                    seal = Seal(NAME, block.signature) if block.signature else None
                    yield Closed(0, block.at, seal, tuple(block.citations))
            case _:
                started = [event.start for event in block.events if event.start]
                yield from self._whole(assembled(started[0] if started else {}, [event.delta for event in block.events]))

    def _whole(self, part: Part) -> Iterator[Event]:
        opened = _Open(part)
        yield self._opened(opened)
        assert opened.at is not None
        yield Closed(0, opened.at)

    def _finish(self, told: _Told, payload: bytes) -> Iterator[Event]:
        if self._finished:
            return
        for index in sorted(self._open):
            yield from self._close(self._open.pop(index))
        reason, own = read_reason(told.stopReason or "", called=self._called)
        self._finished = True
        yield Finished(0, reason, own)

    def _count(self, told: _Told, payload: bytes) -> Iterator[Event]:
        self.done = self._finished
        usage = read_usage(told.usage, told.serviceTier)
        if usage is not None:
            yield Counted(usage)


def _kind(delta: _Delta) -> Part | None:
    if delta.text is not None or delta.citation != NULL:
        return Text("")
    if delta.reasoningContent is not None:
        return Reasoning("")
    return None


def _decoded(payload: bytes) -> tuple[_Told, bytes]:
    for attempt in (payload, mended(payload)):
        try:
            return _told(attempt), attempt
        except UNREADABLE as fault:
            said = fault
    raise Garbled(f"The engine's event is not one of ConverseStream: {said}.")


def _cited(raw: Raw) -> Citation:
    try:
        return read_citation(raw)
    except UNREADABLE as fault:
        raise Garbled(f"The engine's citation cannot be read: {fault}.") from None
