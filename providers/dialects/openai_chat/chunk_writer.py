"""Events as a stream of OpenAI chat."""

from typing import Any, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.dialect import Stamp
from providers.dialects.openai_chat.calls import write_call, write_seal
from providers.dialects.openai_chat.citations import write_annotation
from providers.dialects.openai_chat.detail_numbers import numbered
from providers.dialects.openai_chat.details import write_details
from providers.dialects.openai_chat.endings import write_ending, write_service_tier
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.openai_usage import write_usage
from providers.wire import frame, on_one_line

_encode = msgspec.json.encode
_DONE = b"data: [DONE]\n\n"


class ChunkWriter:
    """See providers.dialect.Writer. The role rides on the first chunk of a choice, usage on the one that finishes the last.

    What chat has no place for (see details.py) rides on the chunk that finishes its choice.
    """

    def __init__(self, stamp: Stamp) -> None:
        self._head: dict[str, Any] = {
            "id": stamp.id,
            "object": "chat.completion.chunk",
            "created": stamp.created,
            "model": stamp.model,
            "episode_id": stamp.episode_id,
        }
        self._wants_usage = stamp.wants_usage
        self._stops_after_calls = stamp.stops_after_calls
        self._choices: dict[int, _Written] = {}
        # By choice and part: what stands before and after a delta's text, and where its pieces are kept.
        self._wraps: dict[tuple[int, int], tuple[bytes, bytes, _Kept]] = {}
        self._held: dict[str, Any] | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta():
                wrap = self._wraps.get((event.choice, event.index))
                if wrap is None:
                    return self._begin(event)
                before, after, kept = wrap
                kept.add(event.text)
                data = before + _encode(event.text) + after
                return data if self._held is None else self._release() + data
            case Opened():
                return self._open(event)
            case Closed():
                return self._close(event)
            case Started():
                self._head["created"] = event.created or self._head["created"]
                if event.system_fingerprint is not None:
                    self._head["system_fingerprint"] = event.system_fingerprint
                service_tier = write_service_tier(event.service_tier)
                if service_tier is not None:
                    self._head["service_tier"] = service_tier
                return b""
            case Logprobs():
                return self._chunk(event.choice, {}, logprobs={"content": [Raw(on_one_line(bytes(entry))) for entry in event.entries]})
            case Finished():
                return self._finish(event)
            case Counted():
                self._usage = event.usage
                return b""
            case _:
                assert_never(event)

    def end(self) -> bytes:
        if self._usage is not None and self._wants_usage:
            self._held = self._held or {**self._head, "choices": []}
            self._held["usage"] = write_usage(self._usage)
        return self._release() + _DONE

    def _open(self, event: Opened) -> bytes:
        part = event.part
        written = self._written(event.choice)
        kept = written.parts[event.index] = _Kept(part)
        match part:
            case ToolCall():
                kept.number = written.calls
                written.calls += 1
                return self._chunk(event.choice, {"tool_calls": [{"index": kept.number, **write_call(part)}]})
            case Text() | Reasoning() | Refusal():
                return self._chunk(event.choice, _grown(kept, part.text)) if part.text else b""
            case Opaque():
                return b""
            case _:
                assert_never(part)

    def _begin(self, event: Delta) -> bytes:
        """The first delta of a part; those that follow differ from it in the text alone, and in not saying the role."""
        kept = self._written(event.choice).parts[event.index]
        kept.add(event.text)
        first = self._chunk(event.choice, _grown(kept, event.text))
        before, _, after = frame(_encode(self._body(event.choice, _grown(kept, _GAP)))).rpartition(_encode(_GAP))
        self._wraps[event.choice, event.index] = before, after, kept
        return first

    def _close(self, event: Closed) -> bytes:
        written = self._written(event.choice)
        kept = written.parts[event.index]
        self._wraps.pop((event.choice, event.index), None)
        kept.grows = False
        if event.seal is not None and isinstance(kept.part, Reasoning):
            kept.part = replace(kept.part, seal=event.seal)
        if event.seal is not None and isinstance(kept.part, ToolCall):
            # The official SDK's stream helper fails on a call's delta without a function.
            told = {"index": kept.number, **_more(kept.part, ""), "extra_content": write_seal(event.seal)}
            return self._chunk(event.choice, {"tool_calls": [told]})
        if not isinstance(kept.part, Text):
            return b""
        annotations: list[dict[str, Any]] = []
        citations = (*kept.part.citations, *event.citations)
        before = written.before(event.index) if citations else 0
        for citation in citations:
            annotation = write_annotation(citation, before, kept.length)
            if annotation is not None:
                annotations.append({**annotation, "index": written.annotations})
                written.annotations += 1
        return self._chunk(event.choice, {"annotations": annotations}) if annotations else b""

    def _finish(self, event: Finished) -> bytes:
        before = self._release()
        written = self._written(event.choice)
        details = written.details()
        delta = {"reasoning_details": details} if details else {}
        called = self._stops_after_calls and written.calls > 0
        self._held = self._body(event.choice, delta, **write_ending(event.reason, event.stop_sequence, called=called))
        return before

    def _written(self, choice: int) -> "_Written":
        written = self._choices.get(choice)
        if written is None:
            written = self._choices[choice] = _Written()
        return written

    def _chunk(self, choice: int, delta: dict[str, Any], **more: Any) -> bytes:
        return self._release() + frame(_encode(self._body(choice, delta, **more)))

    def _body(self, choice: int, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
        written = self._written(choice)
        if not written.begun:
            written.begun = True
            delta = {"role": "assistant", **delta}
        return {**self._head, "choices": [{"index": choice, "delta": delta, "finish_reason": finish_reason, **more}]}

    def _release(self) -> bytes:
        held, self._held = self._held, None
        return b"" if held is None else frame(_encode(held))


# Stands for a text in a chunk that is encoded before the text is known. Nothing that follows it there holds it.
_GAP = "\x00"
_KEYS: dict[type[Part], str] = {Text: "content", Reasoning: "reasoning_content", Refusal: "refusal"}


def _grown(kept: "_Kept", text: str) -> dict[str, Any]:
    """The delta by which a part grows."""
    part = kept.part
    if isinstance(part, ToolCall):
        return {"tool_calls": [{"index": kept.number, **_more(part, text)}]}
    return {_KEYS[type(part)]: text}


def _more(call: ToolCall, text: str) -> dict[str, Any]:
    return {"custom": {"input": text}} if call.custom else {"function": {"arguments": text}}


class _Kept:
    """A part as it is written: of a text how long it is, of reasoning all of it, for what is told of it at the end."""

    __slots__ = ("_pieces", "grows", "length", "number", "part")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.number = 0
        self.grows = isinstance(part, Text)
        self.length = len(part.text) if isinstance(part, Text) else 0
        self._pieces: list[str] | None = [part.text] if isinstance(part, Reasoning) else None

    def add(self, text: str) -> None:
        self.length += len(text)
        if self._pieces is not None:
            self._pieces.append(text)

    def whole(self) -> Part:
        return replace(self.part, text="".join(self._pieces or ())) if isinstance(self.part, Reasoning) else self.part


def _content(kept: _Kept) -> int:
    return kept.length if isinstance(kept.part, Text) else 0


class _Written:
    """A choice as it is written."""

    __slots__ = ("_settled", "_settled_length", "annotations", "begun", "calls", "parts")

    def __init__(self) -> None:
        self.begun = False
        self.calls = 0
        self.annotations = 0
        self.parts: dict[int, _Kept] = {}
        # The parts below grow no more, and hold so many characters of content.
        self._settled = 0
        self._settled_length = 0

    def before(self, index: int) -> int:
        """The characters of content before a part."""
        while self._settled < index and (kept := self.parts.get(self._settled)) is not None and not kept.grows:
            self._settled_length += _content(kept)
            self._settled += 1
        if self._settled == index:
            return self._settled_length
        return self._settled_length + sum(_content(kept) for at, kept in self.parts.items() if self._settled <= at < index)

    def details(self) -> list[dict[str, Any]]:
        return numbered(write_details((kept.whole(), kept.length) for _, kept in sorted(self.parts.items())))
