"""The response of Cohere's chat, and the events of a stream of it. Each is decoded once, with its type.

Source: https://docs.cohere.com/reference/chat and /chat-stream, read 2026-11; recordings of cohere.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import OpaqueState
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.response_decoding import decode_repaired
from providers.canonical.tool_calls import new_call_id
from providers.canonical.upstream_errors import UNNAMED_STATUS, find_error, read_error

T = TypeVar("T")

NAME = "cohere_chat"
# Marks reasoning that came as `tool_plan` (of models without thinking) and has to be sent back as that, not as thinking.
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
        """The id that the host gave the call, else a new one."""
        return self.id or new_call_id()


class Logprob(Struct):
    """The log probabilities of a text of one or more tokens."""

    text: str = ""
    logprobs: list[float] | None = None


class Counts(Struct):
    input_tokens: float | None = None
    output_tokens: float | None = None
    reasoning_tokens: float | None = None


class UsageReport(Struct):
    billed_units: Counts | None = None
    tokens: Counts | None = None
    cached_tokens: float | None = None


class Message(Struct):
    content: list[ContentBlock] | None = None
    tool_plan: str | None = None
    tool_calls: list[Call] | None = None
    citations: list[Raw] | None = None


class Response(Struct):
    """A complete response. In an error `message` is a string, so that this does not decode."""

    message: Message
    finish_reason: str | None = None
    usage: UsageReport | None = None
    logprobs: list[Logprob] | None = None


class MessageDelta(Struct):
    """The message of a stream event: items of its lists arrive one at a time."""

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


_decode_response = msgspec.json.Decoder(Response).decode
_decode_stream_event = msgspec.json.Decoder(StreamEvent).decode


def decode_response(raw: bytes) -> Response:
    """Raises the error that `raw` holds, or InvalidUpstreamResponse."""
    return _decode(raw, _decode_response)


def decode_stream_event(raw: bytes) -> StreamEvent:
    """Raises the error that `raw` holds, or InvalidUpstreamResponse."""
    return _decode(raw, _decode_stream_event)


def _decode(raw: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(raw)
    except DECODE_ERRORS:
        pass
    body = Body.read_response(raw)
    if find_error(body) is None and isinstance(body.value("message"), str):
        raise read_error(UNNAMED_STATUS, {}, raw)
    return decode_repaired(raw, decode, "one of Cohere's chat")
