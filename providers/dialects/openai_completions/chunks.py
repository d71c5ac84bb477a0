"""A stream of completions as events, and events as one. Text is all that it says."""

from collections.abc import Iterator
from typing import Any

import msgspec

from providers.chat import Text, Usage
from providers.dialect import Stamp
from providers.dialects.openai_completions.answers import read_answer, read_ending, started, usage_of, write_ending, write_head
from providers.dialects.openai_completions.logprobs import read_logprobs, write_logprobs
from providers.errors import CutShort, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.openai_usage import write_usage
from providers.wire import NULL, Frames, frame

_encode = msgspec.json.encode
_TEXT = Text("")


class CompletionReader:
    """See providers.dialect.Reader."""

    def __init__(self) -> None:
        self.done = False
        self._frames = Frames()
        self._started = False
        self._open: set[int] = set()
        self._finished: set[int] = set()

    def feed(self, block: bytes) -> Iterator[Event]:
        for data in self._frames.feed(block):
            if data[:1] != b"{" and data.strip() == b"[DONE]":
                self.done = True
            if self.done:
                return
            yield from self._events(data)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a frame at the end is none."""
        for data in self._frames.end():
            if self.done or data.strip() == b"[DONE]":
                break
            try:
                events = self._events(data)
            except Garbled:
                break
            yield from events
        if not self._finished:
            raise CutShort("The engine ended its answer midway: no finish reason came.")
        for index in sorted(self._open - self._finished):
            yield Closed(index, 0)

    def _events(self, data: bytes) -> list[Event]:
        told = read_answer(data)
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(started(told))
        for choice in told.choices or ():
            index = choice.index or 0
            if index in self._finished:
                continue
            if choice.text:
                if index not in self._open:
                    self._open.add(index)
                    events.append(Opened(index, 0, _TEXT))
                events.append(Delta(index, 0, choice.text))
            logprobs = None if choice.logprobs is NULL else read_logprobs(choice.logprobs)
            if logprobs is not None:
                events.append(Logprobs(index, logprobs))
            ending = read_ending(choice)
            if ending is not None:
                self._finished.add(index)
                if index in self._open:
                    events.append(Closed(index, 0))
                events.append(Finished(index, *ending))
        usage = usage_of(told)
        if usage is not None:
            events.append(Counted(usage))
        return events


class CompletionWriter:
    """See providers.dialect.Writer. Usage rides on the chunk that finishes the last choice."""

    def __init__(self, stamp: Stamp) -> None:
        self._head = write_head(stamp, None)
        self._wants_usage = stamp.wants_usage
        self._texts: set[tuple[int, int]] = set()
        self._wraps: dict[int, tuple[bytes, bytes]] = {}
        self._lengths: dict[int, int] = {}
        self._held: dict[str, Any] | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta():
                return self._text(event.choice, event.text) if (event.choice, event.index) in self._texts else b""
            case Opened():
                if not isinstance(event.part, Text):
                    return b""
                self._texts.add((event.choice, event.index))
                return self._text(event.choice, event.part.text) if event.part.text else b""
            case Started():
                self._head["created"] = event.created or self._head["created"]
                if event.system_fingerprint is not None:
                    self._head["system_fingerprint"] = event.system_fingerprint
                if event.service_tier is not None:
                    self._head["service_tier"] = event.service_tier
                return b""
            case Logprobs():
                told = write_logprobs(event.entries, self._lengths.get(event.choice, 0))
                self._lengths[event.choice] = self._lengths.get(event.choice, 0) + sum(map(len, told["tokens"]))
                return self._release() + frame(_encode(self._body(event.choice, "", logprobs=told)))
            case Finished():
                before = self._release()
                self._held = self._body(event.choice, "", **write_ending(event.reason, event.stop_sequence))
                return before
            case Counted():
                self._usage = event.usage
                return b""
            case Closed():
                return b""

    def end(self) -> bytes:
        if self._usage is not None and self._wants_usage:
            self._held = self._held or {**self._head, "choices": []}
            self._held["usage"] = write_usage(self._usage)
        return self._release() + b"data: [DONE]\n\n"

    def _text(self, choice: int, text: str) -> bytes:
        wrap = self._wraps.get(choice)
        if wrap is None:
            before, _, after = frame(_encode(self._body(choice, _GAP))).rpartition(_encode(_GAP))
            wrap = self._wraps[choice] = before, after
        data = wrap[0] + _encode(text) + wrap[1]
        return data if self._held is None else self._release() + data

    def _body(self, choice: int, text: str, finish_reason: str | None = None, logprobs: Any = None, **more: Any) -> dict[str, Any]:
        told = {"index": choice, "text": text, "logprobs": logprobs, "finish_reason": finish_reason, **more}
        return {**self._head, "choices": [told]}

    def _release(self) -> bytes:
        held, self._held = self._held, None
        return b"" if held is None else frame(_encode(held))


# Stands for a text in a chunk that is encoded before the text is known. Nothing that follows it there holds it.
_GAP = "\x00"
