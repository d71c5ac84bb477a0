"""Writes canonical events as the events of a streamed Response, in the order in which OpenAI sends them.

Source: https://platform.openai.com/docs/api-reference/responses-streaming, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import Citation, Opaque, OpaqueState, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import NarthexError
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.opaque_parts import opaque_kind
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.errors import write_response_error
from providers.dialects.openai_responses.finish_reasons import INCOMPLETE_REASONS
from providers.dialects.openai_responses.item_ids import id_prefix, item_id_of
from providers.dialects.openai_responses.namespaces import read_call_names
from providers.dialects.openai_responses.open_parts import OpenMessage, OpenPart
from providers.dialects.openai_responses.output_events import OutputEvents
from providers.dialects.openai_responses.response_object import response_head
from providers.dialects.openai_responses.usage import write_usage
from providers.dialects.openai_responses.write_output_items import (
    call_opaque_state,
    is_other_phase,
    is_search_call,
    wants_summary,
    write_call_item,
    write_citations,
    write_logprob,
    write_message_item,
    write_opaque_item,
    write_reasoning_item,
    write_refusal_content,
    write_text_content,
)
from providers.dialects.openai_responses.write_response import write_status

_encode = msgspec.json.encode


class ResponsesStreamWriter:
    """A stream writer of Responses. Only the first choice is written: a Response has one."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._meta = meta
        self._response = response_head(meta)
        self._as_summary = wants_summary(meta)
        self._names = read_call_names(meta.request_body)
        self._events = OutputEvents(meta)
        self._parts: dict[int, OpenPart] = {}
        self._message: OpenMessage | None = None
        self._logprobs: list[Raw] = []
        self._open_text: OpenPart | None = None
        self._last_text: dict[str, Any] | None = None
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._started = False

    def feed(self, event: Event) -> bytes:
        match event:
            case PartDelta():
                part = self._parts.get(event.index) if event.choice == 0 else None
                if part is None:
                    return b""
                part.texts.append(event.text)
                number = self._events.sequence_number
                if not part.delta_prefix:
                    if isinstance(part.part, ToolCall):
                        return b""
                    return self._start_reasoning_text(part) + self._events.write_delta(part, event.text)
                self._events.sequence_number = number + 1
                return b'%b%b%b,"sequence_number":%d}\n\n' % (part.delta_prefix, _encode(event.text), part.delta_suffix, number)
            case ResponseStarted():
                return self._write_start(event)
            case PartStarted():
                return self._events.release_item("completed") + self._open_part(event) if event.choice == 0 else b""
            case PartFinished():
                return self._close_part(event.index, event.opaque_state, event.citations) if event.choice == 0 else b""
            case Logprobs():
                return self._write_logprobs([write_logprob(entry) for entry in event.entries]) if event.choice == 0 else b""
            case ChoiceFinished():
                return self._write_finish_reason(event) if event.choice == 0 else b""
            case UsageReported():
                self._usage = event.usage
                return b""
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        closing = self._write_start(ResponseStarted(self._meta.model)) + self._close_all("completed")
        if self._last_text is not None:
            self._last_text["logprobs"] = [*self._last_text["logprobs"], *self._logprobs]
        response = self._response
        response["output"] = self._events.output
        response["usage"] = write_usage(self._usage)
        return closing + self._events.write(f"response.{write_status(response, self._finish_reason)}", {"response": response})

    def write_failure(self, error: NarthexError) -> bytes:
        """A response.failed with the items that are complete: Codex reads no other event as the end of a stream that failed."""
        start = self._write_start(ResponseStarted(self._meta.model))
        output = [item for item in self._events.output if item is not None]
        usage = None if self._usage is None else write_usage(self._usage)
        response = {**self._response, "output": output, "usage": usage, "status": "failed", "error": write_response_error(error)}
        return start + self._events.write("response.failed", {"response": response})

    def _write_start(self, event: ResponseStarted) -> bytes:
        if self._started:
            return b""
        self._started = True
        self._response["created_at"] = event.created or self._meta.created
        self._response["service_tier"] = write_service_tier(event.service_tier)
        body = {"response": self._response}
        return self._events.write("response.created", body) + self._events.write("response.in_progress", body)

    def _open_part(self, event: PartStarted) -> bytes:
        part = event.part
        match part:
            case Text() | Refusal():
                return self._open_content(event.index, part)
            case Reasoning():
                return self._close_message() + self._open_reasoning(event.index, part)
            case ToolCall():
                return self._close_message() + self._open_call(event.index, part)
            case Opaque():
                closing = self._close_message()
                output_index, id = self._events.reserve_item("rs")
                closing += self._announce_compaction(output_index, part)
                return closing + self._events.write_whole_item(output_index, write_opaque_item(id, part))
            case _:
                assert_never(part)

    def _announce_compaction(self, output_index: int, part: Opaque) -> bytes:
        """The event that comes before a compaction."""
        if part.origin != DIALECT or opaque_kind(part.raw) != "compaction":
            return b""
        return self._events.write("response.compaction.compacting", {"item_id": item_id_of(part.raw), "output_index": output_index})

    def _open_content(self, index: int, part: Text | Refusal) -> bytes:
        message, opening = self._message, b""
        if message is None or is_other_phase(part, message.phase):
            opening = self._close_message()
            output_index, id = self._events.reserve_item("msg")
            message = self._message = OpenMessage(output_index, id, part.phase if isinstance(part, Text) else None)
            opening += self._events.write_item_added(output_index, write_message_item(id, [], "in_progress", message.phase))
        state = self._parts[index] = OpenPart(part, message.output_index, message.id)
        state.message, state.content_index = message, len(message.content)
        state.event_head = {"content_index": state.content_index, **state.event_head}
        message.open_count += 1
        if isinstance(part, Text):
            content = write_text_content("", [])
            state.set_delta_type("output_text", logprobs=[])
            self._open_text = state
        else:
            content = write_refusal_content("")
            state.set_delta_type("refusal")
        added = self._events.write("response.content_part.added", {**state.event_head, "part": content})
        message.content.append(content)
        return opening + added + self._write_initial_text(index, part.text)

    def _open_reasoning(self, index: int, part: Reasoning) -> bytes:
        output_index, id = self._events.reserve_item("rs")
        self._parts[index] = OpenPart(part, output_index, id)
        item = write_reasoning_item(id, "", None, as_summary=self._as_summary, status="in_progress")
        return self._events.write_item_added(output_index, item) + self._write_initial_text(index, part.text)

    def _open_call(self, index: int, part: ToolCall) -> bytes:
        is_search = is_search_call(part, self._names)
        output_index, id = self._events.reserve_item("tsc" if is_search else id_prefix(part))
        state = self._parts[index] = OpenPart(part, output_index, id)
        if not is_search:
            state.set_delta_type("custom_tool_call_input" if part.custom else "function_call_arguments")
        return self._events.write_item_added(
            output_index, write_call_item(id, part, "", self._names, "in_progress")
        ) + self._write_initial_text(index, part.arguments)

    def _start_reasoning_text(self, state: OpenPart) -> bytes:
        """Starts the text of reasoning at its first delta: reasoning may be encrypted only."""
        if self._as_summary:
            state.event_head = {**state.event_head, "summary_index": 0}
            state.set_delta_type("reasoning_summary_text")
            return self._events.write(
                "response.reasoning_summary_part.added", {**state.event_head, "part": {"type": "summary_text", "text": ""}}
            )
        state.event_head = {"content_index": 0, **state.event_head}
        state.set_delta_type("reasoning_text")
        return self._events.write("response.content_part.added", {**state.event_head, "part": {"type": "reasoning_text", "text": ""}})

    def _write_initial_text(self, index: int, text: str) -> bytes:
        """Writes the text that a part starts with."""
        return self.feed(PartDelta(0, index, text)) if text else b""

    def _write_logprobs(self, entries: list[Raw]) -> bytes:
        """Log probabilities follow their text: in a delta without text, or in the last Response if the text is complete."""
        self._logprobs += entries
        state = self._open_text
        if state is None:
            return b""
        return self._events.write("response.output_text.delta", {**state.event_head, "delta": "", "logprobs": entries})

    def _close_part(self, index: int, opaque_state: OpaqueState | None = None, citations: tuple[Citation, ...] = ()) -> bytes:
        state = self._parts.pop(index, None)
        if state is None:
            return b""
        text = "".join(state.texts)
        part = state.part
        match part:
            case Text():
                return self._close_text(state, text, (*part.citations, *citations))
            case Refusal():
                done = self._events.write("response.refusal.done", {**state.event_head, "refusal": text})
                return done + self._close_content(state, write_refusal_content(text))
            case Reasoning():
                return self._close_reasoning(state, text, opaque_state or part.opaque_state)
            case ToolCall():
                return self._close_call(state, part, text, opaque_state or part.opaque_state)
            case Opaque():
                return b""
            case _:
                assert_never(part)

    def _close_text(self, state: OpenPart, text: str, citations: tuple[Citation, ...]) -> bytes:
        annotations = write_citations(text, citations)
        frames = [
            self._events.write(
                "response.output_text.annotation.added", {**state.event_head, "annotation_index": at, "annotation": annotation}
            )
            for at, annotation in enumerate(annotations)
        ]
        self._last_text = write_text_content(text, annotations, self._logprobs)
        frames.append(self._events.write("response.output_text.done", {**state.event_head, "text": text, "logprobs": self._logprobs}))
        self._logprobs, self._open_text = [], None
        frames.append(self._close_content(state, self._last_text))
        return b"".join(frames)

    def _close_content(self, state: OpenPart, content: dict[str, Any]) -> bytes:
        message = state.message
        assert message is not None
        message.content[state.content_index] = content
        message.open_count -= 1
        done = self._events.write("response.content_part.done", {**state.event_head, "part": content})
        return done + self._finish_message(message, "completed") if message.ended else done

    def _close_reasoning(self, state: OpenPart, text: str, opaque_state: OpaqueState | None) -> bytes:
        frames: list[bytes] = []
        if state.event_prefix:
            frames.append(self._events.write(f"{state.event_prefix}.done", {**state.event_head, "text": text}))
            if self._as_summary:
                summary = {**state.event_head, "part": {"type": "summary_text", "text": text}}
                frames.append(self._events.write("response.reasoning_summary_part.done", summary))
            else:
                content = {**state.event_head, "part": {"type": "reasoning_text", "text": text}}
                frames.append(self._events.write("response.content_part.done", content))
        item = write_reasoning_item(state.id, text, opaque_state, as_summary=self._as_summary)
        frames.append(
            self._events.hold_item(state.output_index, item)
            if opaque_state is None
            else self._events.write_item_done(state.output_index, item)
        )
        return b"".join(frames)

    def _close_call(self, state: OpenPart, call: ToolCall, arguments: str, opaque_state: OpaqueState | None) -> bytes:
        input_field = {"input": arguments} if call.custom else {"name": call.name, "arguments": arguments}
        done = self._events.write(f"{state.event_prefix}.done", {**state.event_head, **input_field}) if state.event_prefix else b""
        item = write_call_item(state.id, call, arguments, self._names)
        if opaque_state is None:
            return done + self._events.hold_item(state.output_index, item)
        done += self._events.write_item_done(state.output_index, item)
        output_index, id = self._events.reserve_item("rs")
        return done + self._events.write_whole_item(
            output_index, write_reasoning_item(id, "", call_opaque_state(call, opaque_state), as_summary=self._as_summary)
        )

    def _close_message(self) -> bytes:
        """Ends the message, as another item follows: it is complete as soon as its content is."""
        message, self._message = self._message, None
        if message is None:
            return b""
        message.ended = True
        return self._finish_message(message, "completed")

    def _finish_message(self, message: OpenMessage, status: str) -> bytes:
        return (
            b""
            if message.open_count
            else self._events.write_item_done(message.output_index, write_message_item(message.id, message.content, status, message.phase))
        )

    def _write_finish_reason(self, event: ChoiceFinished) -> bytes:
        self._finish_reason = event.reason
        return self._close_all("incomplete" if event.reason in INCOMPLETE_REASONS else "completed")

    def _close_all(self, status: str) -> bytes:
        closed = b"".join([self._close_part(index) for index in sorted(self._parts)]) + self._events.release_item(status)
        message, self._message = self._message, None
        return closed if message is None else closed + self._finish_message(message, status)
