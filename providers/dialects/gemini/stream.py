"""Streams of streamGenerateContent?alt=sse: frames with CRLF, each an answer's next piece, and no word that it was the last."""

from collections.abc import Iterator

from providers.dialects.gemini.answers import Saying
from providers.errors import CutShort, Garbled
from providers.events import Event
from providers.wire import Frames

_LONGEST = 1024 * 1024


class GeminiReader:
    """See providers.dialect.Reader. It is done when the stream is: after the word why an answer ended, usage may still come."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._saying = Saying()
        self._first = b""
        self._array = bytearray()

    def feed(self, block: bytes) -> Iterator[Event]:
        self._first = self._first or block.lstrip()[:1]
        if self._first == b"[":
            self._keep(block)
            return
        for frame in self._frames.feed(block):
            yield from self._read(frame)

    def _read(self, frame: bytes) -> Iterator[Event]:
        """Servers that stand before Google's may end a stream as OpenAI does."""
        if frame.strip() != b"[DONE]":
            yield from self._saying.read(frame)

    def _keep(self, block: bytes) -> None:
        """What is no stream is read once it is whole: it may be an error."""
        self._array += block
        if len(self._array) > _LONGEST:
            raise Garbled("The engine answered with an array without end, and not with server-sent events.")

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before an answer did."""
        for frame in [bytes(self._array)] if self._array else self._frames.end():
            yield from self._read(frame)
        self.done = self._saying.ended
        if not self.done:
            raise CutShort("The engine ended its answer midway: it did not say why it ended.")
