"""Answers of Llama as events: a whole one, and the pieces of a stream, which have the same shape. Of streams there is no recording."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.raw_json import DECODE_ERRORS, Body, SSEDecoder, repair_unicode
from providers.canonical.upstream_errors import find_error

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40


class _Chunk(Struct):
    generation: str
    prompt_token_count: int | None = None
    generation_token_count: int | None = None
    stop_reason: str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises Garbled."""
    chunk = _decode_chunk(raw)
    parts = (Text(chunk.generation),) if chunk.generation else ()
    usage = Usage(input=_plausible(chunk.prompt_token_count), output=_plausible(chunk.generation_token_count))
    return ChatResponse((Choice(parts, chunk.stop_reason),), "", usage=None if usage == Usage() else usage)


class LlamaStreamReader:
    """See providers.dialect.Reader: of the frames in which the host's events stand, once they are out of AWS's."""

    def __init__(self) -> None:
        self.done = False
        self._frames = SSEDecoder()
        self._started = False
        self._text_open = False
        self._input_tokens: int | None = None
        self._output_tokens: int | None = None

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            if not self.done:
                yield from self._read_chunk(_decode_chunk(data))

    def finish(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did."""
        if not self.done:
            raise StreamTruncated("The engine ended its answer midway: no stop reason came.")
        return iter(())

    def _read_chunk(self, chunk: _Chunk) -> Iterator[Event]:
        if not self._started:
            self._started = True
            yield ResponseStarted("")
        self._input_tokens = self._input_tokens if chunk.prompt_token_count is None else _plausible(chunk.prompt_token_count)
        self._output_tokens = self._output_tokens if chunk.generation_token_count is None else _plausible(chunk.generation_token_count)
        if chunk.generation:
            if not self._text_open:
                self._text_open = True
                yield PartStarted(0, 0, Text(""))
            yield PartDelta(0, 0, chunk.generation)
        if chunk.stop_reason is None:
            return
        self.done = True
        if self._text_open:
            yield PartFinished(0, 0)
        yield ChoiceFinished(0, chunk.stop_reason)
        if self._input_tokens is not None or self._output_tokens is not None:
            yield UsageReported(Usage(input=self._input_tokens, output=self._output_tokens))


def _decode_chunk(raw: bytes) -> _Chunk:
    for attempt in (raw, repair_unicode(raw)):
        try:
            return _decode(attempt)
        except DECODE_ERRORS as decode_error:
            last_error = decode_error
    raise find_error(Body.read_response(raw)) or InvalidUpstreamResponse(f"The engine's answer is not one of Llama: {last_error}.")


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None
