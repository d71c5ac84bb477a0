"""The byte edit of a stream: what the stream editors of all dialects share. See providers/dialect.py."""

from abc import abstractmethod

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamError
from providers.canonical.sse import SSEDecoder
from providers.dialect import ResponseMeta, StreamEditor


class SSEStreamEditor(StreamEditor):
    """A stream editor of server-sent events. One per stream.

    A subclass edits one event at a time. It sets `finish_reason`, and `done` if the engine announces the end of its stream, and
    holds back everything from the finish reason on: finish() sends that after the exchange is recorded.
    """

    # What a stream without a finish reason lacks, as the error names it.
    missing_end = "no finish reason came"

    def __init__(self, meta: ResponseMeta) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._meta = meta
        self._sse_decoder = SSEDecoder()
        self._delta_count = 0
        self._delta_bytes = 0
        self._min_delta_bytes = 1 << 62

    @property
    def written_tokens(self) -> int:
        """One per delta, or a quarter of the bytes by which deltas exceed the shortest one: not every engine sends single tokens."""
        return max(self._delta_count, (self._delta_bytes - self._delta_count * self._min_delta_bytes) // 4)

    def feed(self, block: bytes) -> bytes:
        edited: list[bytes] = []
        try:
            for data in self._sse_decoder.feed(block):
                if self.done or self.failure is not None:
                    break
                edited.append(self._edit_event(data))
        except UpstreamError as failure:
            self.failure = failure
            edited.append(self._release_before_failure())
        return b"".join(edited)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        remainder = b"" if self.done else self._edit_remainder()
        if self.finish_reason is None:
            raise StreamTruncated(f"The engine ended its answer midway: {self.missing_end}.")
        return remainder + self._write_end()

    def _edit_remainder(self) -> bytes:
        """A last event without the blank line that should end it. Half an event is dropped: it must not cost a complete response."""
        try:
            return b"".join([self._edit_event(data) for data in self._sse_decoder.finish()])
        except InvalidUpstreamResponse:
            return b""

    def _count_delta(self, data: bytes) -> None:
        """Counts an event towards `written_tokens`."""
        size = len(data)
        self._delta_count += 1
        self._delta_bytes += size
        if size < self._min_delta_bytes:
            self._min_delta_bytes = size

    @abstractmethod
    def _edit_event(self, data: bytes) -> bytes:
        """The bytes for the caller, empty if the event is dropped or held back. Raises the UpstreamError that the event reports."""

    @abstractmethod
    def _write_end(self) -> bytes:
        """What was held back, and what ends the stream. Called once, after a finish reason."""

    def _release_before_failure(self) -> bytes:
        """What was held back and is the caller's although the stream failed later."""
        return b""
