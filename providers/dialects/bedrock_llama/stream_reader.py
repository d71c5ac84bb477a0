"""A stream of Llama as events, once its frames are unwrapped from AWS's event stream."""

from collections.abc import Iterator

from providers.canonical.chat import Text, Usage
from providers.canonical.errors import StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.sse import SSEDecoder
from providers.canonical.token_counts import plausible_count
from providers.dialects.bedrock_llama.response_schema import Chunk, decode_chunk, read_stop_reason


class LlamaStreamReader:
    """Implements providers.dialect.StreamReader."""

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
                yield from self._read_chunk(decode_chunk(data))

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the response did."""
        if not self.done:
            raise StreamTruncated("The engine ended its answer midway: no stop reason came.")
        return iter(())

    def _read_chunk(self, chunk: Chunk) -> Iterator[Event]:
        if not self._started:
            self._started = True
            yield ResponseStarted("")
        if chunk.prompt_token_count is not None:
            self._input_tokens = plausible_count(chunk.prompt_token_count)
        if chunk.generation_token_count is not None:
            self._output_tokens = plausible_count(chunk.generation_token_count)
        if chunk.generation:
            if not self._text_open:
                self._text_open = True
                yield PartStarted(0, 0, Text(""))
            yield PartDelta(0, 0, chunk.generation)
        finish_reason, upstream_finish_reason = read_stop_reason(chunk.stop_reason)
        if finish_reason is None:
            return
        self.done = True
        if self._text_open:
            yield PartFinished(0, 0)
        yield ChoiceFinished(0, finish_reason, upstream_finish_reason)
        if self._input_tokens is not None or self._output_tokens is not None:
            yield UsageReported(Usage(input=self._input_tokens, output=self._output_tokens))
