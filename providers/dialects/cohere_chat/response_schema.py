"""Answers of Cohere's chat as they stand on the wire: whole, and as events of a stream. One typed decode for each.

Source: https://docs.cohere.com/reference/chat and /chat-stream, read 2026-11; /shared/exchanges/cohere.
"""

import uuid
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import OpaqueState
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error, read_error

NAME = "cohere_chat"
# What a model without thinking says before it calls tools goes back under another name than thinking does.
TOOL_PLAN = OpaqueState(NAME, "tool_plan")


class ContentBlock(Struct):
    type: str = "text"
    text: str | None = None
    thinking: str | None = None


class Function(Struct):
    name: str = ""
    arguments: str | None = None


class Call(Struct):
    id: str | None = None
    function: Function = msgspec.field(default_factory=Function)

    @property
    def id_or_new(self) -> str:
        """Its own; one that came without gets one that no other call of a conversation has."""
        return self.id or f"call_{uuid.uuid4().hex[:24]}"


class Logprob(Struct):
    """Of a text of one token or more."""

    text: str = ""
    logprobs: list[float] | None = None


class Counts(Struct):
    input_tokens: float | None = None
    output_tokens: float | None = None
    reasoning_tokens: float | None = None


class UsageReport(Struct):
    billed_units: Counts | None = None
    tokens: Counts | None = None


class Message(Struct):
    content: list[ContentBlock] | None = None
    tool_plan: str | None = None
    tool_calls: list[Call] | None = None
    citations: list[Raw] | None = None


class Response(Struct):
    """`message` is a text where it tells an error."""

    message: Message
    finish_reason: str | None = None
    usage: UsageReport | None = None
    logprobs: list[Logprob] | None = None


class MessageDelta(Struct):
    """A message in an event: what it has lists of comes one at a time."""

    content: ContentBlock | list[ContentBlock] | None = None
    tool_plan: str | None = None
    tool_calls: Call | list[Call] | None = None
    citations: Raw = NULL


class EventDelta(Struct):
    message: MessageDelta | None = None
    finish_reason: str | None = None
    usage: UsageReport | None = None
    error: str | None = None


class StreamEvent(Struct):
    type: str
    index: int = 0
    delta: EventDelta | None = None
    logprobs: Logprob | None = None


decode_full_response = msgspec.json.Decoder(Response).decode
decode_stream_event = msgspec.json.Decoder(StreamEvent).decode


def decode_or_raise(raw: bytes, decode: Any) -> Any:
    """Raises the error that was told in place of what was promised, or Garbled."""
    try:
        return decode(raw)
    except DECODE_ERRORS:
        pass
    body = Body.read_response(raw)
    error = find_error(body)
    if error is None and isinstance(body.value("message"), str):
        error = read_error(500, {}, raw)
    if error is not None:
        raise error
    try:
        return decode(repair_unicode(raw))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The host's answer is not one of Cohere's chat: {decode_error}.") from None
