"""A stream of Ollama's chat as events: one chunk a line."""

from collections.abc import Iterator

from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import Event
from providers.canonical.ndjson import NdjsonDecoder
from providers.dialects.ollama_chat.response_parser import ResponseParser


class OllamaStreamReader:
    """Implements providers.dialect.StreamReader."""

    def __init__(self) -> None:
        self.done = False
        self._lines = NdjsonDecoder()
        self._parser = ResponseParser()

    def feed(self, block: bytes) -> Iterator[Event]:
        for line in self._lines.feed(block):
            yield from self._parser.read(line)
            self.done = self._parser.done

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the response did. An incomplete last line is ignored."""
        for line in self._lines.finish():
            try:
                events = list(self._parser.read(line))
            except InvalidUpstreamResponse:
                break
            yield from events
        self.done = self._parser.done
        if not self.done:
            raise StreamTruncated("The engine ended its answer midway: it did not say that it was done.")
