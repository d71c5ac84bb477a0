"""Complete responses of /v1/messages, and their content blocks.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatResponse, Choice, Opaque, OpaqueState, Part, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.tool_calls import new_call_id, read_arguments
from providers.dialects.anthropic.errors import find_anthropic_error
from providers.dialects.anthropic_messages.citations import read_citation
from providers.dialects.anthropic_messages.finish_reasons import read_stop_reason
from providers.dialects.anthropic_messages.opaque_states import NAME, CallState, attach_call_states, read_redacted, read_signature
from providers.dialects.anthropic_messages.usage import read_counts, read_tier, to_usage


class _Response(Struct):
    content: list[Raw]
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Raw = NULL


class _Block(Struct):
    type: str = ""
    text: str | None = None
    citations: list[Raw] | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")


_response_decoder = msgspec.json.Decoder(_Response)
_block_decoder = msgspec.json.Decoder(_Block)


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error of a response with status 200, or InvalidUpstreamResponse."""
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
    finish_reason, upstream_finish_reason = (None, None) if message.stop_reason is None else read_stop_reason(message.stop_reason)
    return Choice(
        attach_call_states(parts, call_states),
        finish_reason,
        upstream_finish_reason=upstream_finish_reason,
        stop_sequence=message.stop_sequence,
    )


def read_block(raw: Raw) -> Part | CallState:
    """The part of a content block, or the signature of a call. Raises one of DECODE_ERRORS."""
    block = _block_decoder.decode(raw)
    match block.type:
        case "text":
            return Text(block.text or "", tuple(read_citation(each) for each in block.citations or ()))
        case "thinking":
            return Reasoning(block.thinking or "", read_signature(block.signature or ""))
        case "redacted_thinking":
            return read_redacted(block.data or "", raw)
        case "tool_use":
            return ToolCall(block.id or new_call_id(), block.name or "", read_arguments(block.input))
        case _ if block.text is not None:
            # No block that only Anthropic has holds its content as `text`.
            return Text(block.text)
        case _:
            return Opaque(NAME, raw)
