"""The byte edit: an engine's Response made the caller's. Our keys are replaced, everything else is the engine's own bytes.

Which keys: those of the Response that name us or the ask (objects.py), wherever an event holds one, and `sequence_number` where an engine
numbers no events. What it leaves out of a stream that a client cannot do without is said for it (mending.py).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamError
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, SSEDecoder, repair_unicode
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai_responses.errors import find_response_error
from providers.dialects.openai_responses.read_response import WireResponse, finish_reason
from providers.dialects.openai_responses.repair_stream import ItemEvent, StreamRepair
from providers.dialects.openai_responses.response_items import Item
from providers.dialects.openai_responses.response_object import apply_response_meta, response_head
from providers.dialects.openai_responses.stream_reader import read_failure_event
from providers.dialects.openai_responses.usage import read_usage


class _Kind(Struct):
    type: str = ""


class _EventHeader(Struct):
    """An event of a kind that has its own ideas of what its keys hold."""

    type: str = ""
    sequence_number: int | None = None


_response_decoder = msgspec.json.Decoder(WireResponse)
_kinds_decoder = msgspec.json.Decoder(list[_Kind])
_event_decoder = msgspec.json.Decoder(ItemEvent)
_header_decoder = msgspec.json.Decoder(_EventHeader)

_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete"})
_FAILURE_EVENTS = frozenset({"response.failed", "response.cancelled", "error"})
_CALL_EVENT_PREFIXES = ("response.function_call_arguments.", "response.custom_tool_call_input.")


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_response(raw)
    error = find_response_error(body)
    if error is not None:
        raise error
    if not body.has_value("output"):
        raise InvalidUpstreamResponse("The engine's answer has no output.")
    usage, reason = _read_ending(body)
    if not body.has_value("status"):
        body["status"] = "completed" if reason in ("stop", "tool_calls") else "incomplete"
    return OutboundResponse(msgspec.json.encode(apply_response_meta(body, meta)), usage, reason)


def _read_ending(body: Body) -> tuple[Usage | None, str]:
    raw = body.write()
    try:
        wire = _response_decoder.decode(raw)
        kinds = [Item(type=each.type) for each in _kinds_decoder.decode(body["output"])] if body.has_value("output") else []
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer is not a Response: {exc}.") from None
    return None if wire.usage == NULL else read_usage(wire.usage, wire.service_tier), finish_reason(wire, kinds)


class ResponsesStreamEditor:
    """See providers.dialect.Editor. The event that ends the answer is withheld; some engines send [DONE] after it, which is not sent on."""

    def __init__(self, meta: ResponseMeta) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._meta = meta
        self._frames = SSEDecoder()
        self._held_frame = b""
        self._event_count = 0
        self._delta_count = 0
        self._deltas_bytes = 0
        self._shortest_bytes = 1 << 62
        self._has_calls = False
        self._stream_repair = StreamRepair(meta)
        self._renumbers = False  # whether the engine's own numbers do not hold any more

    @property
    def written_tokens(self) -> int:
        """One a delta, or, as not every engine sends single tokens, a quarter of the bytes by which they exceed the shortest of them."""
        return max(self._delta_count, (self._deltas_bytes - self._delta_count * self._shortest_bytes) // 4)

    def feed(self, block: bytes) -> bytes:
        edited: list[bytes] = []
        try:
            for data in self._frames.feed(block):
                if self.done or self.failure is not None:
                    break
                edited.append(self._edit_event(data))
        except UpstreamError as failure:
            self.failure = failure
        return b"".join(edited)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        remaining = b"" if self.done else self._edit_remaining()
        if not self._held_frame:
            raise StreamTruncated("The engine ended its answer midway: no event said that the response is complete.")
        return remaining + self._held_frame

    def _edit_remaining(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit_event(data) for data in self._frames.finish()])
        except InvalidUpstreamResponse:
            return b""

    def _edit_event(self, data: bytes) -> bytes:
        event = self._decode_event(data)
        if event is None:
            return b""
        kind = event.type
        if kind in _FAILURE_EVENTS:
            raise read_failure_event(data)
        missing = self._write_missing_start(kind) if self._event_count < 2 else b""
        if event.response != NULL:
            return missing + self._edit_response_event(kind, event, data)
        is_delta = kind.endswith(".delta")
        if is_delta:
            self._delta_count += 1
            self._deltas_bytes += len(data)
            if len(data) < self._shortest_bytes:
                self._shortest_bytes = len(data)
        if kind.startswith(_CALL_EVENT_PREFIXES):
            self._has_calls = True
        change: dict[str, Any] = {}
        if not is_delta or not self._stream_repair.continues_text(event):
            repair = self._stream_repair.repair_event(event, data)
            missing += self._write_missing(repair.missing_events)
            if not repair.is_forwarded:
                self._renumbers = True
                return missing
            change = repair.changes
        if change or (self._renumbers and event.sequence_number is not None):
            data = msgspec.json.encode({**Body.read_response(data), **change, "sequence_number": self._event_count})
        elif event.sequence_number is None:
            data = b'{"sequence_number":%d,%b' % (self._event_count, data.lstrip()[1:])
        self._event_count += 1
        return b"%bevent: %b\ndata: %b\n\n" % (missing, kind.encode(), data)

    def _write_missing_start(self, kind: str) -> bytes:
        """What an engine should have begun with."""
        missing = [] if self._event_count or kind == "response.created" else ["response.created"]
        if kind not in ("response.created", "response.in_progress", "response.queued"):
            missing.append("response.in_progress")
        return self._write_missing([{"type": each, "response": response_head(self._meta)} for each in missing])

    def _write_missing(self, events: Sequence[dict[str, Any]]) -> bytes:
        """What the engine left out."""
        frames: list[bytes] = []
        for event in events:
            encoded = msgspec.json.encode({**event, "sequence_number": self._event_count})
            frames.append(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encoded))
            self._event_count += 1
            self._renumbers = True
        return b"".join(frames)

    def _decode_event(self, data: bytes) -> ItemEvent | None:
        """None for what ends the stream. Raises the error that is told in place of an event."""
        try:
            event = _event_decoder.decode(data)
        except DECODE_ERRORS:
            if data.strip() == b"[DONE]":
                self.done = True
                return None
            event = self._decode_leniently(repair_unicode(data))
        if not event.type or "\n" in event.type or "\r" in event.type:
            raise find_response_error(Body.read_response(data)) or InvalidUpstreamResponse(
                f"The engine's event has no type: {data[:100]!r}."
            )
        return event

    def _decode_leniently(self, data: bytes) -> ItemEvent:
        try:
            return _event_decoder.decode(data)
        except DECODE_ERRORS as exc:
            reason = exc
        try:
            header = _header_decoder.decode(data)
        except DECODE_ERRORS:
            raise InvalidUpstreamResponse(f"The engine's event is not one of a Response: {reason}.") from None
        return ItemEvent(header.type, header.sequence_number)

    def _edit_response_event(self, kind: str, event: ItemEvent, data: bytes) -> bytes:
        outer = Body.read_response(data)
        body = Body.read_response(bytes(outer["response"]))
        if kind == "response.completed" and body.value("status") == "incomplete":  # as vLLM ends what max_output_tokens cut (seen on 0.32)
            kind = outer["type"] = "response.incomplete"
        missing = b""
        if kind in _TERMINAL_EVENTS:
            missing = self._write_missing(self._stream_repair.missing_before_end(body))
            body["status"] = kind.removeprefix("response.")
            self.usage, reason = _read_ending(body)
            self.finish_reason = "tool_calls" if self._has_calls and reason == "stop" else reason
        outer["response"] = apply_response_meta(body, self._meta)
        if event.sequence_number is None or self._renumbers:
            outer["sequence_number"] = self._event_count
        self._event_count += 1
        framed = b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(outer))
        if kind not in _TERMINAL_EVENTS:
            return framed
        self._held_frame, self.done = framed, True
        return missing
