"""Reads a complete Response.

Source: https://platform.openai.com/docs/api-reference/responses/object, read 2026-11.
"""

import msgspec

from providers.canonical.chat import ChatResponse, Choice
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialects.openai.service_tiers import read_service_tier
from providers.dialects.openai_responses.errors import find_response_error
from providers.dialects.openai_responses.finish_reasons import read_finish_reason
from providers.dialects.openai_responses.read_output_items import read_item, read_parts
from providers.dialects.openai_responses.response_schema import WireResponse
from providers.dialects.openai_responses.tool_uses import count_tool_calls
from providers.dialects.openai_responses.usage import read_usage

_response_decoder = msgspec.json.Decoder(WireResponse)


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that an engine reported with status 200, or InvalidUpstreamResponse."""
    body = Body.read_response(raw)
    error = find_response_error(body)
    if error is not None:
        raise error
    if not body.has_value("output"):
        raise InvalidUpstreamResponse("The engine's answer has no output.")
    try:
        return read_wire_response(_response_decoder.decode(raw))
    except DECODE_ERRORS:
        pass
    try:
        return read_wire_response(_response_decoder.decode(with_expected_types(raw)))
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer is not a Response: {exc}.") from None


def read_wire_response(wire: WireResponse) -> ChatResponse:
    """Raises DECODE_ERRORS for items that cannot be decoded, and InvalidUpstreamResponse for a response that is not finished."""
    items = [(read_item(raw), raw) for raw in wire.output or ()]
    parts = tuple(part for item, raw in items for part in read_parts(item, raw))
    finish_reason, upstream_finish_reason = read_finish_reason(wire, [item for item, _ in items])
    logprobs = [entry for item, _ in items for content in item.content or () for entry in content.logprobs or ()]
    return ChatResponse(
        choices=(Choice(parts, finish_reason, tuple(logprobs) or None, upstream_finish_reason),),
        model=wire.model,
        created=None if wire.created_at is None else int(wire.created_at),
        usage=None if wire.usage == NULL else read_usage(wire.usage, wire.service_tier, count_tool_calls(wire.output or ())),
        service_tier=read_service_tier(wire.service_tier),
    )
