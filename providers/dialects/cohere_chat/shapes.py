"""Answers of Cohere's chat as they stand on the wire: whole, and as events of a stream. One typed decode for each.

Source: https://docs.cohere.com/reference/chat and /chat-stream, read 2026-11; /shared/exchanges/cohere.
"""

import uuid
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Seal
from providers.errors import Garbled
from providers.told import error_in, read_error
from providers.wire import NULL, UNREADABLE, Body, mended

NAME = "cohere_chat"
# What a model without thinking says before it calls tools goes back under another name than thinking does.
PLAN = Seal(NAME, "tool_plan")


class Piece(Struct):
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
    def given_id(self) -> str:
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


class Told(Struct):
    billed_units: Counts | None = None
    tokens: Counts | None = None


class Message(Struct):
    content: list[Piece] | None = None
    tool_plan: str | None = None
    tool_calls: list[Call] | None = None
    citations: list[Raw] | None = None


class Answer(Struct):
    """`message` is a text where it tells an error."""

    message: Message
    finish_reason: str | None = None
    usage: Told | None = None
    logprobs: list[Logprob] | None = None


class Grown(Struct):
    """A message in an event: what it has lists of comes one at a time."""

    content: Piece | list[Piece] | None = None
    tool_plan: str | None = None
    tool_calls: Call | list[Call] | None = None
    citations: Raw = NULL


class Delta(Struct):
    message: Grown | None = None
    finish_reason: str | None = None
    usage: Told | None = None
    error: str | None = None


class Event(Struct):
    type: str
    index: int = 0
    delta: Delta | None = None
    logprobs: Logprob | None = None


read_answer = msgspec.json.Decoder(Answer).decode
read_event = msgspec.json.Decoder(Event).decode


def decoded(raw: bytes, decode: Any) -> Any:
    """Raises the error that was told in place of what was promised, or Garbled."""
    try:
        return decode(raw)
    except UNREADABLE:
        pass
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is None and isinstance(body.value("message"), str):
        error = read_error(500, {}, raw)
    if error is not None:
        raise error
    try:
        return decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The host's answer is not one of Cohere's chat: {fault}.") from None
