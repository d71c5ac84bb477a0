"""Token counts and service tiers of Messages.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.token_counts import plausible_count

# The service tier of a response, in OpenAI's names.
_TIERS: Mapping[str, str] = {"standard": "default", "priority": "priority"}
_NATIVE_TIERS: Mapping[str | None, str] = {openai_tier: tier for tier, openai_tier in _TIERS.items()}
_KNOWN_TIERS = (NULL, Raw(b'"standard"'), Raw(b'"priority"'), Raw(b'"batch"'))
# Service tiers with their own price.
_PRICED_TIERS = ("batch", "priority")


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class _CacheCreation(Struct):
    """Tokens written to the cache, by how long they are kept."""

    ephemeral_1h_input_tokens: int | None = None


class Counts(Struct):
    """`usage` of a response, or of one event of a stream: a total so far."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None
    service_tier: str | None = None
    cache_creation: _CacheCreation | None = None


_counts_decoder = msgspec.json.Decoder(Counts)
_fields_decoder = msgspec.json.Decoder(dict[str, Raw])


def read_counts(raw: Raw | None) -> Counts | None:
    """None if nothing is reported, or in another shape: that must not cost a good response."""
    if raw is None or raw == NULL:
        return None
    try:
        return _counts_decoder.decode(raw)
    except DECODE_ERRORS:
        return None


def merge_counts(earlier: Counts | None, newer: Counts | None) -> Counts | None:
    """Counts of a stream are totals so far: a newer count replaces the earlier one, a missing count does not."""
    if earlier is None or newer is None:
        return newer or earlier
    return Counts(*[value if value is not None else getattr(earlier, key) for key, value in msgspec.structs.asdict(newer).items()])


def to_usage(counts: Counts | None) -> Usage | None:
    """`input_tokens` excludes the tokens that were read from and written to the cache: the input is the sum of the three."""
    if counts is None:
        return None
    uncached, output_tokens = plausible_count(counts.input_tokens), plausible_count(counts.output_tokens)
    cache_read, cache_written = plausible_count(counts.cache_read_input_tokens), plausible_count(counts.cache_creation_input_tokens)
    return Usage(
        input=None if uncached is None else uncached + (cache_read or 0) + (cache_written or 0),
        output=output_tokens,
        cached=cache_read,
        reasoning=plausible_count(counts.output_tokens_details.thinking_tokens) if counts.output_tokens_details else None,
        cache_written=cache_written,
        cache_written_hour=plausible_count(counts.cache_creation.ephemeral_1h_input_tokens) if counts.cache_creation else None,
        tier=counts.service_tier if counts.service_tier in _PRICED_TIERS else None,
    )


def read_tier(counts: Counts | None) -> str | None:
    return None if counts is None or counts.service_tier is None else _TIERS.get(counts.service_tier)


def with_known_tier(usage: Raw) -> Raw:
    """An engine's usage; a service tier that Anthropic does not have is null, as official SDKs validate it."""
    if b'"service_tier"' not in bytes(usage):
        return usage
    try:
        fields = _fields_decoder.decode(usage)
    except DECODE_ERRORS:
        return usage
    if fields.get("service_tier", NULL) in _KNOWN_TIERS:
        return usage
    return Raw(msgspec.json.encode({**fields, "service_tier": NULL}))


def write_usage(usage: Usage | None, service_tier: str | None = None) -> dict[str, Any]:
    """Input and output that were not counted are written as 0: the official SDKs require both."""
    usage = usage or Usage()
    body: dict[str, Any] = {
        "input_tokens": max(0, (usage.input or 0) - (usage.cached or 0) - (usage.cache_written or 0)),
        "output_tokens": usage.output or 0,
    }
    if usage.cache_written is not None:
        body["cache_creation_input_tokens"] = usage.cache_written
        if usage.cache_written_hour is not None:
            five_minute_tokens = max(0, usage.cache_written - usage.cache_written_hour)
            body["cache_creation"] = {
                "ephemeral_5m_input_tokens": five_minute_tokens,
                "ephemeral_1h_input_tokens": usage.cache_written_hour,
            }
    if usage.cached is not None:
        body["cache_read_input_tokens"] = usage.cached
    if usage.reasoning is not None:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if usage.estimated:
        body["estimated"] = True
    if service_tier in _NATIVE_TIERS:
        body["service_tier"] = _NATIVE_TIERS[service_tier]
    return body
