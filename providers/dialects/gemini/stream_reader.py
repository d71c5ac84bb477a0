"""A stream of streamGenerateContent?alt=sse as events. Nothing in it marks the last frame."""

from collections.abc import Iterator

from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import Event
from providers.canonical.sse import SSEDecoder
from providers.dialects.gemini.response_parser import ResponseParser

_MAX_ARRAY_BYTES = 1024 * 1024


class GeminiStreamReader:
    """Implements providers.dialect.StreamReader. `done` is set by finish() only: usage may follow the finish reasons."""

    def __init__(self) -> None:
        self.done = False
        self._frames = SSEDecoder()
        self._parser = ResponseParser()
        self._first_byte = b""
        self._array_body = bytearray()

    def feed(self, block: bytes) -> Iterator[Event]:
        self._first_byte = self._first_byte or block.lstrip()[:1]
        if self._first_byte == b"[":
            self._buffer_array(block)
            return
        for frame in self._frames.feed(block):
            yield from self._read_frame(frame)

    def _read_frame(self, frame: bytes) -> Iterator[Event]:
        """Skips [DONE], with which a proxy in front of Google may end a stream."""
        if frame.strip() != b"[DONE]":
            yield from self._parser.read(frame)

    def _buffer_array(self, block: bytes) -> None:
        """Collects an array, which is not a stream and may hold an error; finish() reads it."""
        self._array_body += block
        if len(self._array_body) > _MAX_ARRAY_BYTES:
            raise InvalidUpstreamResponse("The engine answered with a large array and not with server-sent events.")

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before a candidate did."""
        for frame in [bytes(self._array_body)] if self._array_body else self._frames.finish():
            yield from self._read_frame(frame)
        self.done = self._parser.is_finished
        if not self.done:
            raise StreamTruncated("The engine ended its answer midway: it did not say why it ended.")
