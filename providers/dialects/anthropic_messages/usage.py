"""Tokens and reasons to stop, as Anthropic tells them, and back.

Source: https://docs.claude.com/en/api/messages and .../build-with-claude/handling-stop-reasons, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Choice, Refusal, ToolCall, Usage
from providers.canonical.events import ChoiceFinished
from providers.canonical.raw_json import DECODE_ERRORS, NULL

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40

# Its words for why an answer ended, in OpenAI's, and whether its own says more.
_FINISH_REASONS: Mapping[str, tuple[str, bool]] = {
    "end_turn": ("stop", False),
    "stop_sequence": ("stop", True),
    "pause_turn": ("stop", True),
    "max_tokens": ("length", False),
    "model_context_window_exceeded": ("length", True),
    "tool_use": ("tool_calls", False),
    "refusal": ("content_filter", True),
}
_STOP_REASONS: Mapping[str, str] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


# Its words for the tier that served an answer, in OpenAI's.
_TIERS: Mapping[str, str] = {"standard": "default", "priority": "priority"}
_NATIVE_TIERS: Mapping[str | None, str] = {ours: theirs for theirs, ours in _TIERS.items()}


# Of those, the ways of being served that have prices of their own.
_PRICED_TIERS = ("batch", "priority")


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class _CacheCreation(Struct):
    """What went into the cache, by how long it is kept."""

    ephemeral_1h_input_tokens: int | None = None


class Counts(Struct):
    """`usage` as it stands at one place of an answer: of an answer whole, or so far."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None
    service_tier: str | None = None
    cache_creation: _CacheCreation | None = None


_counts_decoder = msgspec.json.Decoder(Counts)


def read_counts(raw: Raw | None) -> Counts | None:
    """None if there are none, or they are told in another way: that must not cost a good answer."""
    if raw is None or raw == NULL:
        return None
    try:
        return _counts_decoder.decode(raw)
    except DECODE_ERRORS:
        return None


def merge_counts(earlier: Counts | None, newer: Counts | None) -> Counts | None:
    """Counts of a stream are running totals: what is told again takes the place of what was told before, and what is not stays."""
    if earlier is None or newer is None:
        return newer or earlier
    return Counts(*[value if value is not None else getattr(earlier, key) for key, value in msgspec.structs.asdict(newer).items()])


def to_usage(counts: Counts | None) -> Usage | None:
    """`input_tokens` is what neither came from the cache nor went into it: the whole input is the sum of the three."""
    if counts is None:
        return None
    uncached, output_tokens = _plausible(counts.input_tokens), _plausible(counts.output_tokens)
    cache_read, cache_written = _plausible(counts.cache_read_input_tokens), _plausible(counts.cache_creation_input_tokens)
    return Usage(
        input=None if uncached is None else uncached + (cache_read or 0) + (cache_written or 0),
        output=output_tokens,
        cached=cache_read,
        reasoning=_plausible(counts.output_tokens_details.thinking_tokens) if counts.output_tokens_details else None,
        cache_written=cache_written,
        cache_written_hour=_plausible(counts.cache_creation.ephemeral_1h_input_tokens) if counts.cache_creation else None,
        tier=counts.service_tier if counts.service_tier in _PRICED_TIERS else None,
    )


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def read_tier(counts: Counts | None) -> str | None:
    return None if counts is None or counts.service_tier is None else _TIERS.get(counts.service_tier)


def write_usage(usage: Usage | None, service_tier: str | None = None) -> dict[str, Any]:
    """Tokens that nobody counted are told as 0: its clients cannot read an answer without these two."""
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
    if service_tier in _NATIVE_TIERS:
        body["service_tier"] = _NATIVE_TIERS[service_tier]
    return body


def read_stop_reason(upstream_finish_reason: str) -> tuple[str, str | None]:
    """In OpenAI's words, and its own where that says more. A word that we do not know is a stop."""
    finish_reason, is_more_specific = _FINISH_REASONS.get(upstream_finish_reason, ("stop", True))
    return finish_reason, upstream_finish_reason if is_more_specific else None


def write_stop_reason(finish: ChoiceFinished | Choice, *, has_tool_calls: bool, has_refusal: bool) -> str | None:
    """`called`, `refused`: whether the answer holds a call or a refusal: engines of OpenAI's kind may call such an end a stop."""
    finish_reason = finish.reason if isinstance(finish, ChoiceFinished) else finish.finish_reason
    if finish_reason is None:
        return None
    if has_refusal:
        return "refusal"
    if finish.upstream_finish_reason is not None and _FINISH_REASONS.get(finish.upstream_finish_reason, ("", False))[0] == finish_reason:
        return finish.upstream_finish_reason
    if finish_reason == "stop" or finish_reason not in _STOP_REASONS:
        return "tool_use" if has_tool_calls else "stop_sequence" if finish.stop_sequence is not None else "end_turn"
    return _STOP_REASONS[finish_reason]


def write_choice_stop_reason(choice: Choice) -> str | None:
    return write_stop_reason(
        choice,
        has_tool_calls=any(isinstance(part, ToolCall) for part in choice.parts),
        has_refusal=any(isinstance(part, Refusal) for part in choice.parts),
    )
