"""Usage as Responses report it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.host_costs import read_host_cost
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.token_counts import is_uncounted, plausible_count
from providers.dialects.openai.tool_uses import read_tool_uses
from providers.dialects.openai.usage import priced_tier


class _CacheWrites(Struct):
    """The `cache_write_tokens`, by how long they are kept at least.

    Source: openai 3.57.0, responses/response_usage.py.
    """

    ttl_12h_tokens: int | None = None
    ttl_30m_tokens: int | None = None


class _InputDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: _CacheWrites | None = None
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
    cost: Raw = NULL
    cost_in_usd_ticks: Raw = NULL
    server_side_tool_usage_details: Raw = NULL


_NO_INPUT, _NO_OUTPUT = _InputDetails(), _OutputDetails()
_usage_decoder = msgspec.json.Decoder(_Usage)
_object_decoder = msgspec.json.Decoder(dict[str, Raw])


def read_usage(raw: bytes | Raw, service_tier: Any = None, tool_uses: Mapping[str, int] | None = None) -> Usage | None:
    """Returns None for usage of another form, or without legible counts: that must not cost a good response.

    xAI's output includes reasoning here, as its totals show. `tool_uses` are those counted in the output; xAI's own counts replace
    them.

    Source: https://platform.openai.com/docs/api-reference/responses/object, read 2026-11.
    """
    try:
        reported = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        try:  # counts as strings, or with a fraction
            reported = _usage_decoder.decode(with_expected_types(bytes(raw)))
        except DECODE_ERRORS:
            return None
    input_details, output_details = reported.input_tokens_details or _NO_INPUT, reported.output_tokens_details or _NO_OUTPUT
    writes, server_tools = input_details.cache_write_tokens_details, reported.server_side_tool_usage_details
    usage = Usage(
        input=plausible_count(reported.input_tokens),
        output=plausible_count(reported.output_tokens),
        cached=plausible_count(input_details.cached_tokens),
        reasoning=plausible_count(output_details.reasoning_tokens),
        cache_written=plausible_count(input_details.cache_write_tokens),
        audio_input=plausible_count(input_details.audio_tokens),
        audio_output=plausible_count(output_details.audio_tokens),
        image_input=plausible_count(input_details.image_tokens),
        tier=priced_tier(service_tier),
        host_cost_microusd=read_host_cost(reported.cost, reported.cost_in_usd_ticks),
        cache_written_12_hours=None if writes is None else plausible_count(writes.ttl_12h_tokens),
        tool_uses=tool_uses if server_tools is NULL else read_tool_uses(NULL, NULL, (server_tools,)),
    )
    return None if is_uncounted(usage) else usage


def with_missing_details(raw: Raw) -> Any:
    """The engine's usage, with the details added that the SDK's types require and older engines leave out."""
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


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """Returns None if nothing was reported.

    Otherwise counts that were not reported are 0, because the SDK's types require all of them.
    """
    if usage is None or (usage.input is None and usage.output is None):
        return None
    input, output = usage.input or 0, usage.output or 0
    return {
        "input_tokens": input,
        "input_tokens_details": {
            "cache_write_tokens": usage.cache_written or 0,
            "cached_tokens": usage.cached or 0,
            **_write_cache_writes(usage),
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": input + output,
        **({"estimated": True} if usage.estimated else {}),
    }


def _write_cache_writes(usage: Usage) -> dict[str, Any]:
    if not usage.cache_written or usage.cache_written_12_hours is None:
        return {}
    kept_long = min(usage.cache_written, usage.cache_written_12_hours)
    return {"cache_write_tokens_details": {"ttl_12h_tokens": kept_long, "ttl_30m_tokens": usage.cache_written - kept_long}}
