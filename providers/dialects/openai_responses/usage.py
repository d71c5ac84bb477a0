"""Tokens as Responses tells them."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.openai.usage import priced_tier

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40


class _InputDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


class _OutputDetails(Struct):
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


_usage_decoder = msgspec.json.Decoder(_Usage)
_object_decoder = msgspec.json.Decoder(dict[str, Raw])


def read_usage(raw: bytes | Raw, service_tier: Any = None) -> Usage | None:
    """None if they are told in another way: that must not cost a good answer. xAI's output holds reasoning here, as its totals tell.

    Source: https://platform.openai.com/docs/api-reference/responses/object, read 2026-11.
    """
    try:
        reported = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    input_details, output_details = reported.input_tokens_details or _InputDetails(), reported.output_tokens_details or _OutputDetails()
    return Usage(
        input=_plausible(reported.input_tokens),
        output=_plausible(reported.output_tokens),
        cached=_plausible(input_details.cached_tokens),
        reasoning=_plausible(output_details.reasoning_tokens),
        cache_written=_plausible(input_details.cache_write_tokens),
        audio_input=_plausible(input_details.audio_tokens),
        audio_output=_plausible(output_details.audio_tokens),
        image_input=_plausible(input_details.image_tokens),
        tier=priced_tier(service_tier),
    )


def with_missing_details(raw: Raw) -> Any:
    """An engine's usage with the details that the SDK's types have and older engines leave out; what it tells stays as it is."""
    try:
        reported = _object_decoder.decode(raw)
        input_details = _object_decoder.decode(reported.get("input_tokens_details", _EMPTY_OBJECT))
        if "output_tokens_details" in reported and "cached_tokens" in input_details and "cache_write_tokens" in input_details:
            return raw
    except DECODE_ERRORS:
        return raw
    return {"output_tokens_details": {"reasoning_tokens": 0}, **reported, "input_tokens_details": {**_NO_INPUT_DETAILS, **input_details}}


_EMPTY_OBJECT = Raw(b"{}")
_NO_INPUT_DETAILS = {"cached_tokens": 0, "cache_write_tokens": 0}


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """None for an engine that did not count. Of one that did, what it did not tell is zero: the SDK's types know no absent count."""
    if usage is None or (usage.input is None and usage.output is None):
        return None
    input, output = usage.input or 0, usage.output or 0
    return {
        "input_tokens": input,
        "input_tokens_details": {"cache_write_tokens": usage.cache_written or 0, "cached_tokens": usage.cached or 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": input + output,
    }
