"""Reads a stream of chat chunks as events."""

from collections.abc import Iterator

from providers.canonical.chat import Citation, Text
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.canonical.events import ChoiceFinished, Event, Logprobs, ResponseStarted, UsageReported
from providers.canonical.raw_json import NULL
from providers.canonical.sse import SSEDecoder
from providers.dialects.openai.service_tiers import read_service_tier
from providers.dialects.openai_chat.finish_reasons import read_finish_reason
from providers.dialects.openai_chat.read_response import read_response_usage
from providers.dialects.openai_chat.response_schema import decode_chunk, unix_seconds
from providers.dialects.openai_chat.search_results import read_sources
from providers.dialects.openai_chat.stream_choice import StreamedChoice


class ChatStreamReader:
    """A stream reader of chat. Chunks of a choice that has finished are dropped."""

    def __init__(self) -> None:
        self.done = False
        self._sse_decoder = SSEDecoder()
        self._started = False
        self._finished = False
        self._choices: dict[int, StreamedChoice] = {}
        self._sources: tuple[Citation, ...] = ()

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
        if not self._finished:
            raise StreamTruncated("The engine ended its answer midway: no finish reason came.")
        for choice in self._choices.values():
            yield from choice.close_all()

    def _read_chunk(self, data: bytes) -> list[Event]:
        chunk = decode_chunk(data)
        events: list[Event] = []
        if chunk is None:
            return events
        if not self._started:
            self._started = True
            events.append(
                ResponseStarted(
                    chunk.model or "", unix_seconds(chunk.created), chunk.system_fingerprint or None, read_service_tier(chunk.service_tier)
                )
            )
        if chunk.search_results is not NULL or chunk.citations is not NULL:
            self._sources = read_sources(chunk.search_results, chunk.citations)
        for choice in chunk.choices or ():
            index = choice.index or 0
            state = self._choices.get(index)
            if state is None:
                state = self._choices[index] = StreamedChoice(index)
            elif state.finished:
                continue
            delta = choice.delta or choice.message
            if delta is not None:
                state.read_delta(delta, events)
            if choice.text and delta is None:  # Together sends `text` beside a delta with the same text
                state.append_text(Text, choice.text, events)
            if choice.logprobs is not None and choice.logprobs.content is not None:
                events.append(Logprobs(index, tuple(choice.logprobs.content)))
            if choice.finish_reason:
                reason, engine_reason, stop_sequence = read_finish_reason(choice)
                state.finished = self._finished = True
                state.add_citations(self._sources)
                events += state.close_all()
                events.append(ChoiceFinished(index, reason or "stop", engine_reason, stop_sequence))
        if chunk.usage is not NULL or chunk.x_groq is not NULL:
            usage = read_response_usage(chunk)
            if usage is not None:
                events.append(UsageReported(usage))
        return events
