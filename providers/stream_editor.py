"""The byte edit of a stream: what the stream editors of all dialects share. See providers/dialect.py."""

import re
from abc import abstractmethod

import msgspec

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, StreamTruncated, UpstreamError
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.sse import SSEDecoder
from providers.canonical.token_estimate import tokens_of_bytes
from providers.dialect import ResponseMeta, StreamEditor


def text_pattern(*fields: str) -> re.Pattern[bytes]:
    """Finds the strings that these fields of a JSON text have, without their quotes."""
    return re.compile(rb'"(?:%b)":[ ]?"([^"\\]*(?:\\.[^"\\]*)*)"' % "|".join(fields).encode())


def unescaped_size(text: bytes) -> int:
    try:
        return len(msgspec.json.decode(b'"%b"' % text, type=str).encode())
    except DECODE_ERRORS:
        return len(text)


class SSEStreamEditor(StreamEditor):
    """A stream editor of server-sent events. One per stream.

    A subclass edits one event at a time. It sets `finish_reason`, and `done` if the engine announces the end of its stream, and
    holds back everything from the finish reason on: finish() sends that after the exchange is recorded.
    """

    # Finds the texts of an event that the model wrote, as they stand in its JSON. A dialect with other names of fields has its own.
    written_texts = text_pattern("content", "reasoning", "reasoning_content", "refusal", "arguments", "input", "text", "thinking")

    # What a stream without a finish reason lacks, as the error names it.
    missing_end = "no finish reason came"

    def __init__(self, meta: ResponseMeta) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._meta = meta
        self.sse_decoder = SSEDecoder()
        self.written_bytes = 0

    @property
    def written_tokens(self) -> int:
        """See providers/canonical/token_estimate.py."""
        return tokens_of_bytes(self.written_bytes)

    def feed(self, block: bytes) -> bytes:
        edited: list[bytes] = []
        try:
            for data in self.sse_decoder.feed(block):
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

    def write_failure(self, error: NarthexError) -> bytes:
        return b""

    def _edit_remainder(self) -> bytes:
        """A last event without the blank line that should end it. Half an event is dropped: it must not cost a complete response."""
        try:
            return b"".join([self._edit_event(data) for data in self.sse_decoder.finish()])
        except InvalidUpstreamResponse:
            return b""

    def _count_delta(self, data: bytes) -> None:
        """Counts the texts of an event towards `written_tokens`: those of WRITTEN_TEXTS, without decoding the event."""
        for text in self.written_texts.findall(data):
            self.written_bytes += len(text) if b"\\" not in text else unescaped_size(text)

    @abstractmethod
    def _edit_event(self, data: bytes) -> bytes:
        """The bytes for the caller, empty if the event is dropped or held back. Raises the UpstreamError that the event reports."""

    @abstractmethod
    def _write_end(self) -> bytes:
        """Returns what was held back, and what ends the stream. It is called once, after a finish reason."""

    def _release_before_failure(self) -> bytes:
        """Returns what was held back and is the caller's although the stream failed later."""
        return b""
