"""A stream of generate as events: one token a line, as server-sent events or as bare JSON."""

from collections.abc import Iterator

from providers.canonical.chat import Text
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.ndjson import NdjsonDecoder
from providers.dialects.tgi_generate.finish_reasons import read_finish_reason
from providers.dialects.tgi_generate.logprobs import read_logprobs
from providers.dialects.tgi_generate.response_schema import Details, decode_chunk
from providers.dialects.tgi_generate.usage import read_usage

_EMPTY_TEXT = Text("")


class GenerateStreamReader:
    """Implements providers.dialect.StreamReader."""

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self.done = False
        self._lines = NdjsonDecoder(limit_bytes)
        self._started = False
        self._text_open = False
        self._has_no_end_marker = False

    def feed(self, block: bytes) -> Iterator[Event]:
        for line in self._lines.feed(block):
            yield from self._read_line(line)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if the stream ended before the response did. An incomplete last line is ignored."""
        try:
            events = [event for line in self._lines.finish() for event in self._read_line(line)]
        except InvalidUpstreamResponse:
            events = []
        yield from events
        if self.done:
            return
        if not self._has_no_end_marker:
            raise StreamTruncated("The engine ended its answer midway: it did not say why.")
        self.done = True
        yield from self._finish_choice("stop", None)

    def _read_line(self, line: bytes) -> Iterator[Event]:
        line = line.strip().removeprefix(b"data:").strip()
        if self.done or not line or line[:1] == b":" or line == b"[DONE]":
            return
        chunk = decode_chunk(line)
        if not self._started:
            self._started = True
            yield ResponseStarted("")
        if chunk.outputs is not None:
            self._has_no_end_marker = True
            yield from self._append_text("".join(chunk.outputs))
        if chunk.token is not None and not (chunk.token.special or chunk.token.special_token):
            yield from self._append_text(chunk.token.text or "")
            logprobs = read_logprobs((chunk.token,), () if chunk.top_tokens is None else (chunk.top_tokens,))
            if logprobs:
                yield Logprobs(0, logprobs)
        if chunk.details is not None or chunk.generated_text is not None:
            details = chunk.details or Details()
            finish_reason, upstream_finish_reason = read_finish_reason(details)
            if not self._text_open:
                yield from self._append_text(chunk.generated_text or "")
            self.done = True
            yield from self._finish_choice(finish_reason, upstream_finish_reason)
            usage = read_usage(details)
            if usage is not None:
                yield UsageReported(usage)

    def _append_text(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if not self._text_open:
            self._text_open = True
            yield PartStarted(0, 0, _EMPTY_TEXT)
        yield PartDelta(0, 0, text)

    def _finish_choice(self, finish_reason: str, upstream_finish_reason: str | None) -> Iterator[Event]:
        if self._text_open:
            yield PartFinished(0, 0)
        yield ChoiceFinished(0, finish_reason, upstream_finish_reason)
