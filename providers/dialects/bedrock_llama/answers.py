"""Answers of Llama as events: a whole one, and the pieces of a stream, which have the same shape. Of streams there is no recording."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from providers.chat import ChatResponse, Choice, Text, Usage
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Opened, Started
from providers.told import error_in
from providers.wire import UNREADABLE, Body, Frames, mended

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40


class _Said(Struct):
    generation: str
    prompt_token_count: int | None = None
    generation_token_count: int | None = None
    stop_reason: str | None = None


_decode = msgspec.json.Decoder(_Said).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises Garbled."""
    told = _read(raw)
    parts = (Text(told.generation),) if told.generation else ()
    usage = Usage(input=_possible(told.prompt_token_count), output=_possible(told.generation_token_count))
    return ChatResponse((Choice(parts, told.stop_reason),), "", usage=None if usage == Usage() else usage)


class GenerationReader:
    """See providers.dialect.Reader: of the frames in which the host's events stand, once they are out of AWS's."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._started = False
        self._open = False
        self._read: int | None = None
        self._written: int | None = None

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            if not self.done:
                yield from self._say(_read(data))

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did."""
        if not self.done:
            raise CutShort("The engine ended its answer midway: no stop reason came.")
        return iter(())

    def _say(self, told: _Said) -> Iterator[Event]:
        if not self._started:
            self._started = True
            yield Started("")
        self._read = self._read if told.prompt_token_count is None else _possible(told.prompt_token_count)
        self._written = self._written if told.generation_token_count is None else _possible(told.generation_token_count)
        if told.generation:
            if not self._open:
                self._open = True
                yield Opened(0, 0, Text(""))
            yield Delta(0, 0, told.generation)
        if told.stop_reason is None:
            return
        self.done = True
        if self._open:
            yield Closed(0, 0)
        yield Finished(0, told.stop_reason)
        if self._read is not None or self._written is not None:
            yield Counted(Usage(input=self._read, output=self._written))


def _read(raw: bytes) -> _Said:
    for attempt in (raw, mended(raw)):
        try:
            return _decode(attempt)
        except UNREADABLE as fault:
            said = fault
    raise error_in(Body.read_reply(raw)) or Garbled(f"The engine's answer is not one of Llama: {said}.")


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None
