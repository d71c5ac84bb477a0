"""Meaning as the events of a streamed Response, in the order in which OpenAI sends them.

Source: https://platform.openai.com/docs/api-reference/responses-streaming, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.chat import Citation, Opaque, Part, Reasoning, Refusal, Seal, Text, ToolCall, Usage
from providers.dialect import Stamp
from providers.dialects.openai_responses.answers import INCOMPLETE, end
from providers.dialects.openai_responses.items import (
    call_item,
    call_seal,
    item_id,
    message_item,
    opaque_item,
    reasoning_item,
    refusal_content,
    text_content,
    wants_summary,
    write_citations,
)
from providers.dialects.openai_responses.items import prefix as id_prefix
from providers.dialects.openai_responses.objects import response_head
from providers.dialects.openai_responses.usage import write_usage
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.wire import on_one_line

_encode = msgspec.json.encode


class _Message:
    """The message that is being written: neighbouring texts and refusals are its content. `open`: how many of them are not whole yet."""

    __slots__ = ("at", "content", "ended", "id", "open")

    def __init__(self, at: int, id: str) -> None:
        self.at = at
        self.id = id
        self.content: list[dict[str, Any]] = []
        self.open = 0
        self.ended = False


class _Written:
    """A part that is being written. `before` and `after`: the bytes around the text of each of its deltas."""

    __slots__ = ("after", "at", "before", "head", "id", "index", "kind", "message", "part", "texts")

    def __init__(self, part: Part, at: int, id: str) -> None:
        self.part = part
        self.at = at
        self.id = id
        self.index = 0
        self.kind = ""
        self.head: dict[str, Any] = {"item_id": id, "output_index": at}
        self.message: _Message | None = None
        self.texts: list[str] = []
        self.before = self.after = b""

    def says(self, kind: str, **more: Any) -> None:
        """Deltas are `response.KIND.delta` from here on."""
        self.kind = f"response.{kind}"
        event = f"{self.kind}.delta"
        head = _encode({"type": event, **self.head, "delta": ""})
        self.before = b"event: " + event.encode() + b"\ndata: " + head[:-3]
        self.after = b"," + _encode(more)[1:-1] if more else b""


class EventWriter:
    """See providers.dialect.Writer. Of several choices the first is written: a Response has one."""

    def __init__(self, stamp: Stamp) -> None:
        self._stamp = stamp
        self._response = response_head(stamp)
        self._as_summary = wants_summary(stamp)
        self._number = 0
        self._output: list[Any] = []
        self._parts: dict[int, _Written] = {}
        self._message: _Message | None = None
        self._logprobs: list[Raw] = []
        self._open_text: _Written | None = None
        self._last_text: dict[str, Any] | None = None
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._begun = False

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta():
                part = self._parts.get(event.index) if event.choice == 0 else None
                if part is None:
                    return b""
                part.texts.append(event.text)
                number = self._number
                if not part.before:
                    return self._begin_thought(part) + self._delta_of(part, event.text)
                self._number = number + 1
                return b'%b%b%b,"sequence_number":%d}\n\n' % (part.before, _encode(event.text), part.after, number)
            case Started():
                return self._start(event)
            case Opened():
                return self._open(event) if event.choice == 0 else b""
            case Closed():
                return self._close(event.index, event.seal, event.citations) if event.choice == 0 else b""
            case Logprobs():
                return self._tell_logprobs([Raw(on_one_line(bytes(entry))) for entry in event.entries]) if event.choice == 0 else b""
            case Finished():
                return self._finish(event) if event.choice == 0 else b""
            case Counted():
                self._usage = event.usage
                return b""
            case _:
                assert_never(event)

    def end(self) -> bytes:
        before = self._start(Started(self._stamp.model)) + self._end_all("completed")
        if self._last_text is not None:
            self._last_text["logprobs"] = [*self._last_text["logprobs"], *self._logprobs]
        response = self._response
        response["output"] = self._output
        response["usage"] = write_usage(self._usage)
        return before + self._event(f"response.{end(response, self._reason)}", {"response": response})

    def _event(self, kind: str, body: dict[str, Any]) -> bytes:
        raw = _encode({"type": kind, **body, "sequence_number": self._number})
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + raw + b"\n\n"

    def _start(self, event: Started) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        self._response["created_at"] = event.created or self._stamp.created
        if event.service_tier is not None:
            self._response["service_tier"] = event.service_tier
        body = {"response": self._response}
        return self._event("response.created", body) + self._event("response.in_progress", body)

    def _open(self, event: Opened) -> bytes:
        part = event.part
        match part:
            case Text() | Refusal():
                return self._open_content(event.index, part)
            case Reasoning():
                return self._leave_message() + self._open_reasoning(event.index, part)
            case ToolCall():
                return self._leave_message() + self._open_call(event.index, part)
            case Opaque():
                before = self._leave_message()
                at, id = self._place("rs")
                return before + self._whole_item(at, opaque_item(id, part))
            case _:
                assert_never(part)

    def _place(self, prefix: str) -> tuple[int, str]:
        """Where the next item of the output will be, and its id."""
        at = len(self._output)
        self._output.append(None)
        return at, item_id(self._stamp, prefix, at)

    def _open_content(self, index: int, part: Text | Refusal) -> bytes:
        message, before = self._message, b""
        if message is None:
            at, id = self._place("msg")
            message = self._message = _Message(at, id)
            before = self._added(at, message_item(id, [], "in_progress"))
        written = self._parts[index] = _Written(part, message.at, message.id)
        written.message, written.index = message, len(message.content)
        written.head = {"content_index": written.index, **written.head}
        message.open += 1
        if isinstance(part, Text):
            content = text_content("", [])
            written.says("output_text", logprobs=[])
            self._open_text = written
        else:
            content = refusal_content("")
            written.says("refusal")
        added = self._event("response.content_part.added", {**written.head, "part": content})
        message.content.append(content)
        return before + added + self._delta(index, part.text)

    def _open_reasoning(self, index: int, part: Reasoning) -> bytes:
        at, id = self._place("rs")
        self._parts[index] = _Written(part, at, id)
        item = reasoning_item(id, "", None, as_summary=self._as_summary, status="in_progress")
        return self._added(at, item) + self._delta(index, part.text)

    def _open_call(self, index: int, part: ToolCall) -> bytes:
        at, id = self._place(id_prefix(part))
        written = self._parts[index] = _Written(part, at, id)
        written.says("custom_tool_call_input" if part.custom else "function_call_arguments")
        return self._added(at, call_item(id, part, "", "in_progress")) + self._delta(index, part.arguments)

    def _begin_thought(self, written: _Written) -> bytes:
        """Reasoning that is sealed alone has no text to begin."""
        if self._as_summary:
            written.head = {**written.head, "summary_index": 0}
            written.says("reasoning_summary_text")
            return self._event("response.reasoning_summary_part.added", {**written.head, "part": {"type": "summary_text", "text": ""}})
        written.head = {"content_index": 0, **written.head}
        written.says("reasoning_text")
        return self._event("response.content_part.added", {**written.head, "part": {"type": "reasoning_text", "text": ""}})

    def _delta(self, index: int, text: str) -> bytes:
        """What a part begins with."""
        return self.feed(Delta(0, index, text)) if text else b""

    def _delta_of(self, written: _Written, text: str) -> bytes:
        self._number += 1
        return b'%b%b%b,"sequence_number":%d}\n\n' % (written.before, _encode(text), written.after, self._number - 1)

    def _tell_logprobs(self, entries: list[Raw]) -> bytes:
        """They come behind the text that they are about: in a delta without text, or once that is whole, in the Response that ends it."""
        self._logprobs += entries
        written = self._open_text
        if written is None:
            return b""
        return self._event("response.output_text.delta", {**written.head, "delta": "", "logprobs": entries})

    def _close(self, index: int, seal: Seal | None = None, citations: tuple[Citation, ...] = ()) -> bytes:
        written = self._parts.pop(index, None)
        if written is None:
            return b""
        text = "".join(written.texts)
        part = written.part
        match part:
            case Text():
                return self._close_text(written, text, (*part.citations, *citations))
            case Refusal():
                done = self._event("response.refusal.done", {**written.head, "refusal": text})
                return done + self._close_content(written, refusal_content(text))
            case Reasoning():
                return self._close_reasoning(written, text, seal or part.seal)
            case ToolCall():
                return self._close_call(written, part, text, seal or part.seal)
            case Opaque():
                return b""
            case _:
                assert_never(part)

    def _close_text(self, written: _Written, text: str, citations: tuple[Citation, ...]) -> bytes:
        annotations = write_citations(text, citations)
        out = [
            self._event("response.output_text.annotation.added", {**written.head, "annotation_index": at, "annotation": annotation})
            for at, annotation in enumerate(annotations)
        ]
        self._last_text = text_content(text, annotations, self._logprobs)
        out.append(self._event("response.output_text.done", {**written.head, "text": text, "logprobs": self._logprobs}))
        self._logprobs, self._open_text = [], None
        out.append(self._close_content(written, self._last_text))
        return b"".join(out)

    def _close_content(self, written: _Written, content: dict[str, Any]) -> bytes:
        message = written.message
        assert message is not None
        message.content[written.index] = content
        message.open -= 1
        done = self._event("response.content_part.done", {**written.head, "part": content})
        return done + self._end_message(message, "completed") if message.ended else done

    def _close_reasoning(self, written: _Written, text: str, seal: Seal | None) -> bytes:
        out: list[bytes] = []
        if written.kind:
            out.append(self._event(f"{written.kind}.done", {**written.head, "text": text}))
            if self._as_summary:
                summary = {**written.head, "part": {"type": "summary_text", "text": text}}
                out.append(self._event("response.reasoning_summary_part.done", summary))
            else:
                content = {**written.head, "part": {"type": "reasoning_text", "text": text}}
                out.append(self._event("response.content_part.done", content))
        out.append(self._done(written.at, reasoning_item(written.id, text, seal, as_summary=self._as_summary)))
        return b"".join(out)

    def _close_call(self, written: _Written, call: ToolCall, arguments: str, seal: Seal | None) -> bytes:
        said = {"input": arguments} if call.custom else {"arguments": arguments}
        done = self._event(f"{written.kind}.done", {**written.head, **said})
        done += self._done(written.at, call_item(written.id, call, arguments))
        if seal is None:
            return done
        at, id = self._place("rs")
        return done + self._whole_item(at, reasoning_item(id, "", call_seal(call, seal), as_summary=self._as_summary))

    def _leave_message(self) -> bytes:
        """Another item follows: the message is whole as soon as its content is."""
        message, self._message = self._message, None
        if message is None:
            return b""
        message.ended = True
        return self._end_message(message, "completed")

    def _end_message(self, message: _Message, status: str) -> bytes:
        return b"" if message.open else self._done(message.at, message_item(message.id, message.content, status))

    def _finish(self, event: Finished) -> bytes:
        self._reason = event.reason
        return self._end_all("incomplete" if event.reason in INCOMPLETE else "completed")

    def _end_all(self, status: str) -> bytes:
        closed = b"".join([self._close(index) for index in sorted(self._parts)])
        message, self._message = self._message, None
        return closed if message is None else closed + self._end_message(message, status)

    def _added(self, at: int, item: Any) -> bytes:
        return self._event("response.output_item.added", {"output_index": at, "item": item})

    def _done(self, at: int, item: Any) -> bytes:
        self._output[at] = item
        return self._event("response.output_item.done", {"output_index": at, "item": item})

    def _whole_item(self, at: int, item: Any) -> bytes:
        return self._added(at, item) + self._done(at, item)
