"""Tokens and reasons to stop, as Converse tells them.

Source: the service model of Bedrock Runtime in botocore 1.44 (TokenUsage, StopReason), read 2026-11; recordings aws_bedrock/01 to 22.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from providers.chat import Usage
from providers.errors import Unparsed
from providers.wire import NULL, UNREADABLE

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40
# Its words for why an answer ended, in OpenAI's, and whether its own says more.
_REASONS: Mapping[str, tuple[str, bool]] = {
    "end_turn": ("stop", False),
    "stop_sequence": ("stop", True),
    "max_tokens": ("length", False),
    "model_context_window_exceeded": ("length", True),
    "tool_use": ("tool_calls", False),
    "guardrail_intervened": ("content_filter", True),
    "content_filtered": ("content_filter", True),
}
_MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})
# Tiers with a price of their own.
_TIERS = frozenset({"flex", "priority"})


class _Cached(Struct):
    ttl: str = ""
    inputTokens: int | None = None


class _Counts(Struct):
    inputTokens: int | None = None
    outputTokens: int | None = None
    cacheReadInputTokens: int | None = None
    cacheWriteInputTokens: int | None = None
    cacheDetails: list[_Cached] | None = None


class _Tier(Struct):
    type: str = ""


_counts = msgspec.json.Decoder(_Counts)
_tier = msgspec.json.Decoder(_Tier)


def read_usage(raw: Raw, service_tier: Raw) -> Usage | None:
    """`inputTokens` is what neither came from the cache nor went into it: the whole input is the sum of the three.

    None if there are none, or they are told in another way: that must not cost a good answer.
    """
    if raw == NULL:
        return None
    try:
        told = _counts.decode(raw)
    except UNREADABLE:
        return None
    plain = _possible(told.inputTokens)
    cached, written = _possible(told.cacheReadInputTokens), _possible(told.cacheWriteInputTokens)
    hour = [_possible(each.inputTokens) for each in told.cacheDetails or () if each.ttl == "1h"]
    return Usage(
        input=None if plain is None else plain + (cached or 0) + (written or 0),
        output=_possible(told.outputTokens),
        cached=cached,
        cache_written=written,
        cache_written_hour=hour[0] if hour else None,
        tier=tier if (tier := read_tier(service_tier)) in _TIERS else None,
    )


def read_tier(raw: Raw) -> str | None:
    try:
        return _tier.decode(raw).type or None
    except UNREADABLE:
        return None


def read_reason(word: str, *, called: bool) -> tuple[str, str | None]:
    """In OpenAI's words, and its own where that says more. `called`: the answer holds calls.

    Raises Unparsed where its model wrote what it could not read.
    """
    if word in _MALFORMED:
        what = "a call of a tool" if word == "malformed_tool_use" else "an answer"
        raise Unparsed(f"The engine's model wrote what is not {what} that can be read ({word}).", told=200)
    reason, says_more = _REASONS.get(word, ("stop", True))
    return "tool_calls" if called and reason == "stop" else reason, word if says_more else None


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None
