"""Reads a stream of completion chunks as events."""

from collections.abc import Iterator

from msgspec import UNSET

from providers.canonical.chat import Text
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, UsageReported
from providers.canonical.raw_json import NULL
from providers.canonical.sse import SSEDecoder
from providers.dialects.openai_completions.logprobs import read_logprobs
from providers.dialects.openai_completions.read_response import read_finish_reason, read_response_usage, read_started
from providers.dialects.openai_completions.response_schema import decode_chunk

_EMPTY_TEXT = Text("")


class CompletionStreamReader:
    """A stream reader of completions: each choice has one text."""

    def __init__(self) -> None:
        self.done = False
        self._sse_decoder = SSEDecoder()
        self._started = False
        self._open_choices: set[int] = set()
        self._finished_choices: set[int] = set()

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._sse_decoder.feed(block):
            if data[:1] != b"{" and data.strip() == b"[DONE]":
                self.done = True
            if self.done:
                return
            yield from self._read_chunk(data)

    def finish(self) -> Iterator[Event]:
        """Raises StreamTruncated if no choice has finished. Half a frame at the end is dropped."""
        for data in self._sse_decoder.finish():
            if self.done or data.strip() == b"[DONE]":
                break
            try:
                events = self._read_chunk(data)
            except InvalidUpstreamResponse:
                break
            yield from events
        if not self._finished_choices:
            raise StreamTruncated("The engine ended its answer midway: no finish reason came.")
        for index in sorted(self._open_choices - self._finished_choices):
            yield PartFinished(index, 0)

    def _read_chunk(self, data: bytes) -> list[Event]:
        chunk = decode_chunk(data)
        events: list[Event] = []
        if chunk is None:
            return events
        if not self._started:
            self._started = True
            events.append(read_started(chunk))
        for choice in chunk.choices or ():
            index = choice.index or 0
            if index in self._finished_choices:
                continue
            if choice.text is not UNSET and choice.text:
                if index not in self._open_choices:
                    self._open_choices.add(index)
                    events.append(PartStarted(index, 0, _EMPTY_TEXT))
                events.append(PartDelta(index, 0, choice.text))
            logprobs = None if choice.logprobs is NULL else read_logprobs(choice.logprobs)
            if logprobs is not None:
                events.append(Logprobs(index, logprobs))
            ending = read_finish_reason(choice)
            if ending is not None:
                self._finished_choices.add(index)
                if index in self._open_choices:
                    events.append(PartFinished(index, 0))
                events.append(ChoiceFinished(index, *ending))
        usage = read_response_usage(chunk)
        if usage is not None:
            events.append(UsageReported(usage))
        return events
