"""The byte edit of Responses: our fields are replaced, the rest stays the engine's own bytes.

Replaced are the fields of a Response that identify us or repeat the request (response_object.py), in every event that holds one, and
`sequence_number` if an engine does not number its events. Events that an engine leaves out and clients need are added
(repair_stream.py).
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.loose_types import with_expected_types
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.token_estimate import written_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai_responses.errors import check_untyped_event, find_response_error, read_failure_event, write_response_error
from providers.dialects.openai_responses.finish_reasons import (
    INCOMPLETE_REASONS,
    KNOWN_INCOMPLETE_REASONS,
    UNFINISHED_STATUSES,
    UNKNOWN_INCOMPLETE_REASON,
    read_finish_reason,
)
from providers.dialects.openai_responses.repair_calls import with_whole_calls
from providers.dialects.openai_responses.repair_stream import StreamRepair
from providers.dialects.openai_responses.response_object import apply_response_meta, response_head
from providers.dialects.openai_responses.response_schema import Item, WireResponse
from providers.dialects.openai_responses.stream_event_schema import ItemEvent
from providers.dialects.openai_responses.tool_uses import count_tool_calls, may_have_tool_calls
from providers.dialects.openai_responses.usage import read_usage, write_usage
from providers.stream_editor import SSEStreamEditor, text_pattern


class _Kind(Struct):
    type: str = ""


class _EventHeader(Struct):
    """The header of an event whose other fields have types of their own."""

    type: str = ""
    sequence_number: int | None = None


_response_decoder = msgspec.json.Decoder(WireResponse)
_kinds_decoder = msgspec.json.Decoder(list[_Kind])
_event_decoder = msgspec.json.Decoder(ItemEvent)
_header_decoder = msgspec.json.Decoder(_EventHeader)

_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete"})
# Of those that hold a Response; another one ends the response if its status says so.
_KNOWN_EVENTS = _TERMINAL_EVENTS | {"response.created", "response.queued", "response.in_progress"}
_FAILURE_EVENTS = frozenset({"response.failed", "response.cancelled", "error"})
_has_text = re.compile(rb'"(?:text|refusal|encrypted_content)"\s*:\s*"[^"]').search
# Official clients require their `logprobs`.
_TEXT_EVENTS = frozenset({"response.output_text.delta", "response.output_text.done"})
_CALL_EVENT_PREFIXES = ("response.function_call_arguments.", "response.custom_tool_call_input.")


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A complete response. Raises InvalidUpstreamResponse, or the error that an engine reported with status 200."""
    body = Body.read_response(raw)
    error = find_response_error(body)
    if error is not None:
        raise error
    if not body.has_value("output"):
        raise InvalidUpstreamResponse("The engine's answer has no output.")
    usage, reason, upstream_reason = _normalize_ending(body)
    estimate = None
    _check_answered(body, usage, reason)
    body["output"] = with_whole_calls(body["output"])
    if usage is None:
        estimate = written_tokens(bytes(body["output"]))
        body["usage"] = write_usage(meta.estimate_usage(estimate))
    model = read_model_name(body.get("model"))
    finish_reason = recorded_finish_reason(reason, upstream_reason)
    return OutboundResponse(msgspec.json.encode(apply_response_meta(body, meta)), usage, finish_reason, model, estimate)


def _normalize_ending(body: Body) -> tuple[Usage | None, str, str | None]:
    """The usage, the finish reason and the engine's own. Sets `status` and `incomplete_details`, which official clients validate."""
    raw = body.write()
    try:
        wire = _response_decoder.decode(raw)
        kinds = [Item(type=each.type) for each in _kinds_decoder.decode(body["output"])] if body.has_value("output") else []
    except DECODE_ERRORS as exc:
        corrected = with_expected_types(raw)
        if corrected is raw:
            raise InvalidUpstreamResponse(f"The engine's answer is not a Response: {exc}.") from None
        body.update(Body.read_response(corrected))
        return _normalize_ending(body)
    reason, upstream_reason = read_finish_reason(wire, kinds)
    if reason in ("stop", "tool_calls"):
        body["status"] = "completed"
    else:
        body["status"] = "incomplete"
        if wire.incomplete_details is None or wire.incomplete_details.reason not in KNOWN_INCOMPLETE_REASONS:
            body["incomplete_details"] = {"reason": INCOMPLETE_REASONS.get(reason, UNKNOWN_INCOMPLETE_REASON)}
    tool_uses = count_tool_calls(wire.output or ()) if may_have_tool_calls(raw) else None
    return None if wire.usage == NULL else read_usage(wire.usage, wire.service_tier, tool_uses), reason, upstream_reason


def _check_answered(body: Body, usage: Usage | None, reason: str) -> None:
    """Raises InvalidUpstreamResponse for a response that has neither content nor usage, and was neither cut off nor filtered."""
    if (usage is not None and (usage.input or usage.output)) or reason in ("length", "content_filter"):
        return
    output = bytes(body.get("output", NULL))
    kinds = [] if output == NULL else _kinds_decoder.decode(output)
    if _has_text(output) is None and all(each.type in ("message", "reasoning") for each in kinds):
        raise InvalidUpstreamResponse("The engine's answer is empty: it has neither content nor calls nor usage.")


class ResponsesStreamEditor(SSEStreamEditor):
    """A stream editor of Responses. It holds back the event that ends the response, and drops [DONE], which some engines send after it."""

    missing_end = "no event said that the response is complete"
    written_texts = text_pattern("delta")

    def __init__(self, meta: ResponseMeta) -> None:
        super().__init__(meta)
        self._held_frame = b""
        self._event_count = 0
        self._has_calls = False
        self._stream_repair = StreamRepair(meta)
        self._last_number: int | None = None
        self._renumbers = False  # whether the engine's own numbers no longer hold

    def _write_end(self) -> bytes:
        return self._held_frame

    def write_failure(self, error: NarthexError) -> bytes:
        """A response.failed: Codex reads no other event as the end of a stream that failed."""
        missing = self._write_missing_start("response.failed") if self._event_count < 2 else b""
        number = self._event_count
        if self._last_number is not None and not self._renumbers:
            number = max(number, self._last_number + 1)
        response = {**response_head(self._meta), "status": "failed", "error": write_response_error(error)}
        event = {"type": "response.failed", "response": response, "sequence_number": number}
        return missing + b"event: response.failed\ndata: %b\n\n" % msgspec.json.encode(event)

    def _edit_event(self, data: bytes) -> bytes:
        event = self._decode_event(data)
        if event is None:
            return b""
        kind = event.type
        if event.sequence_number is not None:
            self._last_number = event.sequence_number
        if kind in _FAILURE_EVENTS:
            self._last_number = None if self._last_number is None else self._last_number - 1  # this event is not sent
            raise read_failure_event(data)
        missing = self._write_missing_start(kind) if self._event_count < 2 else b""
        if event.response != NULL:
            return missing + self._edit_response_event(kind, event, data)
        if kind.startswith(_CALL_EVENT_PREFIXES):
            self._has_calls = True
        if kind in _TEXT_EVENTS and b'"logprobs"' not in data:  # llama.cpp leaves it out
            data = data.rstrip()[:-1] + b',"logprobs":[]}'
        if kind.endswith(".delta"):
            self._count_delta(data)
            if self._stream_repair.continues_text(event):
                if self._renumbers or event.sequence_number is None:
                    data = self._renumber(event, data, {})
                self._event_count += 1
                return b"%bevent: %b\ndata: %b\n\n" % (missing, kind.encode(), data)
        repair = self._stream_repair.repair_event(event, data)
        missing += self._write_missing(repair.missing_events)
        if not repair.is_forwarded:
            self._renumbers = True
            return missing
        data = self._renumber(event, data, repair.changes)
        self._event_count += 1
        return b"%bevent: %b\ndata: %b\n\n" % (missing, kind.encode(), data)

    def _renumber(self, event: ItemEvent, data: bytes, changes: dict[str, Any]) -> bytes:
        """The event with its changes and a sequence number that follows those of the events before it."""
        if changes or (self._renumbers and event.sequence_number is not None):
            return msgspec.json.encode({**Body.read_response(data), **changes, "sequence_number": self._event_count})
        if event.sequence_number is None:
            return b'{"sequence_number":%d,%b' % (self._event_count, data.lstrip()[1:])
        return data

    def _write_missing_start(self, kind: str) -> bytes:
        """The events that the engine should have sent first."""
        missing = [] if self._event_count or kind == "response.created" else ["response.created"]
        if kind not in ("response.created", "response.in_progress", "response.queued"):
            missing.append("response.in_progress")
        return self._write_missing([{"type": each, "response": response_head(self._meta)} for each in missing])

    def _write_missing(self, events: Sequence[dict[str, Any]]) -> bytes:
        """The frames of events that the engine left out."""
        frames: list[bytes] = []
        for event in events:
            encoded = msgspec.json.encode({**event, "sequence_number": self._event_count})
            frames.append(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encoded))
            self._event_count += 1
            self._renumbers = True
        return b"".join(frames)

    def _decode_event(self, data: bytes) -> ItemEvent | None:
        """Returns None for data that are no event, such as [DONE].

        Raises the error that an engine sent in place of an event, or InvalidUpstreamResponse.
        """
        try:
            event = _event_decoder.decode(data)
        except DECODE_ERRORS:
            if data.strip() == b"[DONE]":
                self.done = True
                return None
            event = self._decode_leniently(repair_unicode(data))
        if not event.type or "\n" in event.type or "\r" in event.type:
            check_untyped_event(data)
            return None
        return event

    def _decode_leniently(self, data: bytes) -> ItemEvent:
        try:
            return _event_decoder.decode(data)
        except DECODE_ERRORS as exc:
            reason = exc
        try:
            return _event_decoder.decode(with_expected_types(data))
        except DECODE_ERRORS:
            pass
        try:
            header = _header_decoder.decode(data)
        except DECODE_ERRORS:
            raise InvalidUpstreamResponse(f"The engine's event is not one of a Response: {reason}.") from None
        return ItemEvent(header.type, header.sequence_number)

    def _edit_response_event(self, kind: str, event: ItemEvent, data: bytes) -> bytes:
        outer = Body.read_response(data)
        body = Body.read_response(bytes(outer["response"]))
        status = body.value("status") if "status" in body else None
        if kind == "response.completed" and status == "incomplete":  # as vLLM 0.32 ends at max_output_tokens
            kind = outer["type"] = "response.incomplete"
        elif kind not in _KNOWN_EVENTS and status not in UNFINISHED_STATUSES:
            error = find_response_error(body)
            if error is not None:
                raise error
            kind = outer["type"] = "response.incomplete" if status == "incomplete" else "response.completed"
        missing = b""
        if kind in _TERMINAL_EVENTS:
            if kind == "response.incomplete" or status in UNFINISHED_STATUSES:
                body["status"] = kind.removeprefix("response.")
            self.usage, reason, upstream_reason = _normalize_ending(body)
            if not self.written_bytes and not self._has_calls:
                _check_answered(body, self.usage, reason)
            missing = self._write_missing(self._stream_repair.missing_before_end(body))
            kind = outer["type"] = f"response.{body['status']}"
            if self.usage is None:
                body["usage"] = write_usage(self._meta.estimate_usage(self.written_tokens))
            self.finish_reason = recorded_finish_reason("tool_calls" if self._has_calls and reason == "stop" else reason, upstream_reason)
        if self.model is None:
            self.model = read_model_name(body.get("model"))
        outer["response"] = apply_response_meta(body, self._meta)
        if event.sequence_number is None or self._renumbers:
            outer["sequence_number"] = self._event_count
        self._event_count += 1
        framed = b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(outer))
        if kind not in _TERMINAL_EVENTS:
            return framed
        self._held_frame, self.done = framed, True
        return missing
