"""The byte edit of a stream of /v1/messages: id and model are ours, all else is the engine's own bytes."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamError
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, SSEDecoder, repair_unicode
from providers.dialect import ResponseMeta
from providers.dialects.anthropic.errors import find_anthropic_error
from providers.dialects.anthropic_messages.read_response import fill_required_fields
from providers.dialects.anthropic_messages.usage import Counts, merge_counts, read_counts, read_stop_reason, to_usage


class _StopDelta(Struct):
    stop_reason: str | None = None


class _EventHead(Struct):
    type: str = ""
    delta: Raw = NULL
    message: dict[str, Raw] | None = None
    usage: Raw = NULL


_head_decoder = msgspec.json.Decoder(_EventHead)
_stop_delta_decoder = msgspec.json.Decoder(_StopDelta)

_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class MessagesStreamEditor:
    """See providers.dialect.Editor. `finish_reason` is in OpenAI's words."""

    def __init__(self, meta: ResponseMeta) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._meta = meta
        self._frames = SSEDecoder()
        self._message_started = False
        self._withheld: list[bytes] = []
        self._counts: Counts | None = None
        self._delta_count = 0
        self._delta_bytes = 0
        self._min_delta_bytes = 1 << 62

    @property
    def written_tokens(self) -> int:
        """One a piece, or, as not every engine sends single tokens, a quarter of the bytes by which pieces exceed the shortest of them."""
        return max(self._delta_count, (self._delta_bytes - self._delta_count * self._min_delta_bytes) // 4)

    def feed(self, block: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for data in self._frames.feed(block):
                if self.done or self.failure is not None:
                    break
                out.append(self._edit_event(data))
        except UpstreamError as failure:
            self.failure = failure
        return b"".join(out)

    def finish(self) -> bytes:
        """message_stop, which some engines leave out, is what the official SDKs wait for."""
        if self.failure is not None:
            raise self.failure
        remainder = b"" if self.done else self._edit_remainder()
        if self.finish_reason is None:
            raise StreamTruncated("The engine ended its answer midway: no stop reason came.")
        return remainder + b"".join(self._withheld) + _MESSAGE_STOP

    def _edit_remainder(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit_event(data) for data in self._frames.finish()])
        except InvalidUpstreamResponse:
            return b""

    def _edit_event(self, data: bytes) -> bytes:
        try:
            head = _head_decoder.decode(data)
        except DECODE_ERRORS:
            if data.strip() == b"[DONE]":
                self.done = True
                return b""
            data = repair_unicode(data)
            head = _decode_head(data)
        kind = head.type
        if kind == "content_block_delta":
            self._delta_count += 1
            self._delta_bytes += len(data)
            if len(data) < self._min_delta_bytes:
                self._min_delta_bytes = len(data)
            return self._pass_or_withhold(b"event: content_block_delta\ndata: " + data + b"\n\n")
        match kind:
            case "message_start":
                return self._edit_message_start(head.message or {})
            case "message_delta":
                return self._pass_or_withhold(self._edit_message_delta(head, data))
            case "message_stop":
                self.done = True
                return b""
            case "error" | "":
                raise find_anthropic_error(Body.read_response(data)) or InvalidUpstreamResponse("The engine's event has no type.")
            case _:
                return self._pass_or_withhold(_event_frame(kind, data))

    def _pass_or_withhold(self, event: bytes) -> bytes:
        """At once, but not once the end was told: that waits."""
        if self.finish_reason is None:
            return event
        self._withheld.append(event)
        return b""

    def _edit_message_start(self, message: dict[str, Any]) -> bytes:
        """Some vendors tell it twice, and clients must not begin anew."""
        self._update_usage(message.get("usage"))
        if self._message_started:
            return b""
        self._message_started = True
        fill_required_fields(message, self._meta)
        return _event_frame("message_start", msgspec.json.encode({"type": "message_start", "message": message}))

    def _edit_message_delta(self, head: _EventHead, data: bytes) -> bytes:
        self._update_usage(head.usage)
        try:
            stop_reason = None if head.delta == NULL else _stop_delta_decoder.decode(head.delta).stop_reason
        except DECODE_ERRORS as decode_error:
            raise InvalidUpstreamResponse(f"The engine's event is not one of a stream of messages: {decode_error}.") from None
        if stop_reason is not None and self.finish_reason is None:
            self.finish_reason = read_stop_reason(stop_reason)[0]
        if head.usage == NULL or head.delta == NULL:
            # The official SDKs cannot do without either.
            body = Body.read_response(data)
            output_tokens = self._counts.output_tokens if self._counts is not None else None
            if head.delta == NULL:
                body["delta"] = {"stop_reason": None, "stop_sequence": None}
            if head.usage == NULL:
                body["usage"] = {"output_tokens": output_tokens or 0}
            data = body.write()
        return _event_frame("message_delta", data)

    def _update_usage(self, usage: Raw | None) -> None:
        self._counts = merge_counts(self._counts, read_counts(usage))
        self.usage = to_usage(self._counts)


def _event_frame(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def _decode_head(data: bytes) -> _EventHead:
    try:
        return _head_decoder.decode(data)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's event is not one of a stream of messages: {decode_error}.") from None
