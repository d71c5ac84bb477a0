"""Streams of streamGenerateContent?alt=sse: frames with CRLF, each an answer's next piece, and no word that it was the last."""

from collections.abc import Iterator

from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import Event
from providers.canonical.raw_json import SSEDecoder
from providers.dialects.gemini.read_response import ResponseParser

_MAX_ARRAY_BYTES = 1024 * 1024


class GeminiStreamReader:
    """See providers.dialect.Reader. It is done when the stream is: after the word why an answer ended, usage may still come."""

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
        """Servers that stand before Google's may end a stream as OpenAI does."""
        if frame.strip() != b"[DONE]":
            yield from self._parser.read(frame)

    def _buffer_array(self, block: bytes) -> None:
        """What is no stream is read once it is whole: it may be an error."""
        self._array_body += block
        if len(self._array_body) > _MAX_ARRAY_BYTES:
            raise InvalidUpstreamResponse("The engine answered with an array without end, and not with server-sent events.")

    def finish(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before an answer did."""
        for frame in [bytes(self._array_body)] if self._array_body else self._frames.finish():
            yield from self._read_frame(frame)
        self.done = self._parser.is_finished
        if not self.done:
            raise StreamTruncated("The engine ended its answer midway: it did not say why it ended.")
