"""Whole answers of /v1/messages as meaning, and back.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatResponse, Choice, OpaqueState, Part
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.anthropic.errors import find_anthropic_error
from providers.dialects.anthropic_messages.blocks import read_block, write_blocks
from providers.dialects.anthropic_messages.opaque_states import CallState, attach_call_states
from providers.dialects.anthropic_messages.usage import (
    read_counts,
    read_stop_reason,
    read_tier,
    to_usage,
    write_choice_stop_reason,
    write_usage,
)

_ZERO_USAGE = Raw(b'{"input_tokens":0,"output_tokens":0}')


class _Response(Struct):
    content: list[Raw]
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Raw = NULL


class _MessageEnd(Struct):
    content: list[Raw]
    stop_reason: str | None = None
    usage: Raw = NULL


_response_decoder = msgspec.json.Decoder(_Response)
_message_end_decoder = msgspec.json.Decoder(_MessageEnd)


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """The byte edit: id and model are ours, what the official SDKs need and an engine left out is added, the rest is the engine's bytes.

    Raises Garbled if it is no message, or the error that an engine told with status 200.
    """
    body = Body.read_response(raw)
    error = find_anthropic_error(body)
    if error is not None:
        raise error
    try:
        message_end = _message_end_decoder.decode(body.write())
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is not a message: {decode_error}.") from None
    fill_required_fields(body, meta)
    finish_reason = None if message_end.stop_reason is None else read_stop_reason(message_end.stop_reason)[0]
    return OutboundResponse(body.write(), to_usage(read_counts(message_end.usage)), finish_reason)


def fill_required_fields(message: dict[str, Any], meta: ResponseMeta) -> None:
    """Our id and model, and whatever the official SDKs need of a message, which some engines leave out (llm-d, in its streams)."""
    message["id"], message["model"] = "msg_" + meta.id, meta.model
    message["type"], message["role"] = "message", "assistant"
    if message.get("content", NULL) == NULL:
        message["content"] = []
    message.setdefault("stop_reason", None)
    message.setdefault("stop_sequence", None)
    if message.get("usage", NULL) == NULL:
        message["usage"] = _ZERO_USAGE


def read_response(raw: bytes) -> ChatResponse:
    """Raises Garbled, or the error that an engine told with status 200."""
    body = Body.read_response(raw)
    error = find_anthropic_error(body)
    if error is not None:
        raise error
    try:
        message = _response_decoder.decode(body.write())
        choice = _read_choice(message)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is not a message: {decode_error}.") from None
    counts = read_counts(message.usage)
    return ChatResponse((choice,), message.model, usage=to_usage(counts), service_tier=read_tier(counts))


def _read_choice(message: _Response) -> Choice:
    parts: list[Part] = []
    call_states: dict[str, OpaqueState] = {}
    for raw in message.content:
        part = read_block(raw)
        if isinstance(part, CallState):
            call_states[part.call_id] = OpaqueState(part.origin, part.data)
        else:
            parts.append(part)
    if message.stop_reason is None:
        return Choice(attach_call_states(parts, call_states), None, stop_sequence=message.stop_sequence)
    finish_reason, upstream_finish_reason = read_stop_reason(message.stop_reason)
    return Choice(
        attach_call_states(parts, call_states),
        finish_reason,
        upstream_finish_reason=upstream_finish_reason,
        stop_sequence=message.stop_sequence,
    )


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    """One message out of the first choice: Anthropic knows no others."""
    choice = response.choices[0] if response.choices else Choice((), None)
    return msgspec.json.encode(
        {
            "id": "msg_" + meta.id,
            "type": "message",
            "role": "assistant",
            "model": meta.model,
            "content": list(write_blocks(choice.parts)),
            "stop_reason": write_choice_stop_reason(choice),
            "stop_sequence": choice.stop_sequence,
            "usage": write_usage(response.usage, response.service_tier),
        }
    )
