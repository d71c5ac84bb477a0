"""Whole answers of /v1/messages as meaning, and back.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.anthropic_errors import read_told_error
from providers.chat import ChatResponse, Choice, Part, Seal
from providers.dialect import Edited, Stamp
from providers.dialects.anthropic_messages.blocks import read_block, write_parts
from providers.dialects.anthropic_messages.seals import CallSeal, sealed
from providers.dialects.anthropic_messages.usage import (
    as_usage,
    read_counts,
    read_reason,
    read_tier,
    write_choice_reason,
    write_usage,
)
from providers.errors import Garbled
from providers.wire import NULL, UNREADABLE, Body

_NO_COUNTS = Raw(b'{"input_tokens":0,"output_tokens":0}')


class _Answer(Struct):
    content: list[Raw]
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Raw = NULL


class _Ended(Struct):
    content: list[Raw]
    stop_reason: str | None = None
    usage: Raw = NULL


_answer = msgspec.json.Decoder(_Answer)
_ended = msgspec.json.Decoder(_Ended)


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """The byte edit: id and model are ours, what the official SDKs need and an engine left out is added, the rest is the engine's bytes.

    Raises Garbled if it is no message, or the error that an engine told with status 200.
    """
    body = Body.read_reply(raw)
    error = read_told_error(body)
    if error is not None:
        raise error
    try:
        told = _ended.decode(body.write())
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a message: {fault}.") from None
    complete(body, stamp)
    reason = None if told.stop_reason is None else read_reason(told.stop_reason)[0]
    return Edited(body.write(), as_usage(read_counts(told.usage)), reason)


def complete(message: dict[str, Any], stamp: Stamp) -> None:
    """Our id and model, and whatever the official SDKs need of a message, which some engines leave out (llm-d, in its streams)."""
    message["id"], message["model"] = "msg_" + stamp.id, stamp.model
    message["type"], message["role"] = "message", "assistant"
    if message.get("content", NULL) == NULL:
        message["content"] = []
    message.setdefault("stop_reason", None)
    message.setdefault("stop_sequence", None)
    if message.get("usage", NULL) == NULL:
        message["usage"] = _NO_COUNTS


def read_response(raw: bytes) -> ChatResponse:
    """Raises Garbled, or the error that an engine told with status 200."""
    body = Body.read_reply(raw)
    error = read_told_error(body)
    if error is not None:
        raise error
    try:
        told = _answer.decode(body.write())
        choice = _read_choice(told)
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a message: {fault}.") from None
    counts = read_counts(told.usage)
    return ChatResponse((choice,), told.model, usage=as_usage(counts), service_tier=read_tier(counts))


def _read_choice(told: _Answer) -> Choice:
    parts: list[Part] = []
    seals: dict[str, Seal] = {}
    for raw in told.content:
        part = read_block(raw)
        if isinstance(part, CallSeal):
            seals[part.call] = Seal(part.origin, part.data)
        else:
            parts.append(part)
    if told.stop_reason is None:
        return Choice(sealed(parts, seals), None, stop_sequence=told.stop_sequence)
    reason, own = read_reason(told.stop_reason)
    return Choice(sealed(parts, seals), reason, told=own, stop_sequence=told.stop_sequence)


def write_response(answer: ChatResponse, stamp: Stamp) -> bytes:
    """One message out of the first choice: Anthropic knows no others."""
    choice = answer.choices[0] if answer.choices else Choice((), None)
    return msgspec.json.encode(
        {
            "id": "msg_" + stamp.id,
            "type": "message",
            "role": "assistant",
            "model": stamp.model,
            "content": list(write_parts(choice.parts)),
            "stop_reason": write_choice_reason(choice),
            "stop_sequence": choice.stop_sequence,
            "usage": write_usage(answer.usage, answer.service_tier),
        }
    )
