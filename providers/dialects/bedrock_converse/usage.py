"""Token counts and service tiers of Converse.

Source: the service model of Bedrock Runtime in botocore 1.44 (TokenUsage), read 2026-11; recordings aws_bedrock/01 to 22.
"""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.token_counts import is_uncounted, plausible_count

# Service tiers with their own price.
_PRICED_TIERS = frozenset({"flex", "priority"})


class _CacheDetail(Struct):
    ttl: str = ""
    inputTokens: int | None = None


class _Counts(Struct):
    inputTokens: int | None = None
    outputTokens: int | None = None
    cacheReadInputTokens: int | None = None
    cacheWriteInputTokens: int | None = None
    cacheDetails: list[_CacheDetail] | None = None


class _Tier(Struct):
    type: str = ""


_counts_decoder = msgspec.json.Decoder(_Counts)
_tier_decoder = msgspec.json.Decoder(_Tier)


def read_usage(raw: Raw, service_tier: Raw) -> Usage | None:
    """Returns None if nothing is reported, or nothing legible: that must not cost a good response.

    `inputTokens` excludes the tokens that were read from and written to the cache: the input is the sum of the three.
    """
    if raw == NULL:
        return None
    try:
        counts = _counts_decoder.decode(raw)
    except DECODE_ERRORS:
        try:  # counts as strings, or with a fraction
            counts = _counts_decoder.decode(with_expected_types(bytes(raw)))
        except DECODE_ERRORS:
            return None
    uncached = plausible_count(counts.inputTokens)
    cache_read, cache_written = plausible_count(counts.cacheReadInputTokens), plausible_count(counts.cacheWriteInputTokens)
    details = [(each.ttl, plausible_count(each.inputTokens)) for each in counts.cacheDetails or ()]
    if cache_written is None and details:
        cache_written = sum(count or 0 for _, count in details)
    one_hour_counts = [count for ttl, count in details if ttl == "1h"]
    tier = read_tier(service_tier)
    usage = Usage(
        input=None if uncached is None else uncached + (cache_read or 0) + (cache_written or 0),
        output=plausible_count(counts.outputTokens),
        cached=cache_read,
        cache_written=cache_written,
        cache_written_hour=one_hour_counts[0] if one_hour_counts else None,
        tier=tier if tier in _PRICED_TIERS else None,
    )
    return None if is_uncounted(usage) else usage


def read_tier(raw: Raw) -> str | None:
    try:
        return _tier_decoder.decode(raw).type or None
    except DECODE_ERRORS:
        return None
