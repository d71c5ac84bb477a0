"""Tokens and reasons to stop, as Converse tells them.

Source: the service model of Bedrock Runtime in botocore 1.44 (TokenUsage, StopReason), read 2026-11; recordings aws_bedrock/01 to 22.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import UnparsableModelOutput
from providers.canonical.raw_json import DECODE_ERRORS, NULL

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40
# Its words for why an answer ended, in OpenAI's, and whether its own says more.
_FINISH_REASONS: Mapping[str, tuple[str, bool]] = {
    "end_turn": ("stop", False),
    "stop_sequence": ("stop", True),
    "max_tokens": ("length", False),
    "model_context_window_exceeded": ("length", True),
    "tool_use": ("tool_calls", False),
    "guardrail_intervened": ("content_filter", True),
    "content_filtered": ("content_filter", True),
}
_MALFORMED_REASONS = frozenset({"malformed_model_output", "malformed_tool_use"})
# Tiers with a price of their own.
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
    """`inputTokens` is what neither came from the cache nor went into it: the whole input is the sum of the three.

    None if there are none, or they are told in another way: that must not cost a good answer.
    """
    if raw == NULL:
        return None
    try:
        counts = _counts_decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    uncached = _plausible(counts.inputTokens)
    cache_read, cache_written = _plausible(counts.cacheReadInputTokens), _plausible(counts.cacheWriteInputTokens)
    one_hour_counts = [_plausible(each.inputTokens) for each in counts.cacheDetails or () if each.ttl == "1h"]
    return Usage(
        input=None if uncached is None else uncached + (cache_read or 0) + (cache_written or 0),
        output=_plausible(counts.outputTokens),
        cached=cache_read,
        cache_written=cache_written,
        cache_written_hour=one_hour_counts[0] if one_hour_counts else None,
        tier=tier if (tier := read_tier(service_tier)) in _PRICED_TIERS else None,
    )


def read_tier(raw: Raw) -> str | None:
    try:
        return _tier_decoder.decode(raw).type or None
    except DECODE_ERRORS:
        return None


def read_stop_reason(upstream_finish_reason: str, *, has_tool_calls: bool) -> tuple[str, str | None]:
    """In OpenAI's words, and its own where that says more. `called`: the answer holds calls.

    Raises Unparsed where its model wrote what it could not read.
    """
    if upstream_finish_reason in _MALFORMED_REASONS:
        expected = "a call of a tool" if upstream_finish_reason == "malformed_tool_use" else "an answer"
        raise UnparsableModelOutput(
            f"The engine's model wrote what is not {expected} that can be read ({upstream_finish_reason}).", upstream_status=200
        )
    finish_reason, is_more_specific = _FINISH_REASONS.get(upstream_finish_reason, ("stop", True))
    return (
        "tool_calls" if has_tool_calls and finish_reason == "stop" else finish_reason,
        upstream_finish_reason if is_more_specific else None,
    )


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None
