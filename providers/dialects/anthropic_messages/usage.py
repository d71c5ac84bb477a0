"""Tokens and reasons to stop, as Anthropic tells them, and back.

Source: https://docs.claude.com/en/api/messages and .../build-with-claude/handling-stop-reasons, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Choice, Refusal, ToolCall, Usage
from providers.events import Finished
from providers.wire import NULL, UNREADABLE

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40

# Its words for why an answer ended, in OpenAI's, and whether its own says more.
_REASONS: Mapping[str, tuple[str, bool]] = {
    "end_turn": ("stop", False),
    "stop_sequence": ("stop", True),
    "pause_turn": ("stop", True),
    "max_tokens": ("length", False),
    "model_context_window_exceeded": ("length", True),
    "tool_use": ("tool_calls", False),
    "refusal": ("content_filter", True),
}
_WORDS: Mapping[str, str] = {"length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use", "content_filter": "refusal"}


# Its words for the tier that served an answer, in OpenAI's.
_TIERS: Mapping[str, str] = {"standard": "default", "priority": "priority"}
_TIER_WORDS: Mapping[str | None, str] = {ours: theirs for theirs, ours in _TIERS.items()}


# Of those, the ways of being served that have prices of their own.
_PRICED = ("batch", "priority")


class _Details(Struct):
    thinking_tokens: int | None = None


class _Written(Struct):
    """What went into the cache, by how long it is kept."""

    ephemeral_1h_input_tokens: int | None = None


class Counts(Struct):
    """`usage` as it stands at one place of an answer: of an answer whole, or so far."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None
    service_tier: str | None = None
    cache_creation: _Written | None = None


_counts = msgspec.json.Decoder(Counts)


def read_counts(raw: Raw | None) -> Counts | None:
    """None if there are none, or they are told in another way: that must not cost a good answer."""
    if raw is None or raw == NULL:
        return None
    try:
        return _counts.decode(raw)
    except UNREADABLE:
        return None


def later(before: Counts | None, now: Counts | None) -> Counts | None:
    """Counts of a stream are running totals: what is told again takes the place of what was told before, and what is not stays."""
    if before is None or now is None:
        return now or before
    return Counts(*[new if new is not None else getattr(before, key) for key, new in msgspec.structs.asdict(now).items()])


def as_usage(counts: Counts | None) -> Usage | None:
    """`input_tokens` is what neither came from the cache nor went into it: the whole input is the sum of the three."""
    if counts is None:
        return None
    plain, output = _possible(counts.input_tokens), _possible(counts.output_tokens)
    cached, written = _possible(counts.cache_read_input_tokens), _possible(counts.cache_creation_input_tokens)
    return Usage(
        input=None if plain is None else plain + (cached or 0) + (written or 0),
        output=output,
        cached=cached,
        reasoning=_possible(counts.output_tokens_details.thinking_tokens) if counts.output_tokens_details else None,
        cache_written=written,
        cache_written_hour=_possible(counts.cache_creation.ephemeral_1h_input_tokens) if counts.cache_creation else None,
        tier=counts.service_tier if counts.service_tier in _PRICED else None,
    )


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None


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
            shorter = max(0, usage.cache_written - usage.cache_written_hour)
            body["cache_creation"] = {"ephemeral_5m_input_tokens": shorter, "ephemeral_1h_input_tokens": usage.cache_written_hour}
    if usage.cached is not None:
        body["cache_read_input_tokens"] = usage.cached
    if usage.reasoning is not None:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if service_tier in _TIER_WORDS:
        body["service_tier"] = _TIER_WORDS[service_tier]
    return body


def read_reason(word: str) -> tuple[str, str | None]:
    """In OpenAI's words, and its own where that says more. A word that we do not know is a stop."""
    reason, says_more = _REASONS.get(word, ("stop", True))
    return reason, word if says_more else None


def write_reason(end: Finished | Choice, *, called: bool, refused: bool) -> str | None:
    """`called`, `refused`: whether the answer holds a call or a refusal: engines of OpenAI's kind may call such an end a stop."""
    reason = end.reason if isinstance(end, Finished) else end.finish_reason
    if reason is None:
        return None
    if refused:
        return "refusal"
    if end.told is not None and _REASONS.get(end.told, ("", False))[0] == reason:
        return end.told
    if reason == "stop" or reason not in _WORDS:
        return "tool_use" if called else "stop_sequence" if end.stop_sequence is not None else "end_turn"
    return _WORDS[reason]


def write_choice_reason(choice: Choice) -> str | None:
    return write_reason(
        choice,
        called=any(isinstance(part, ToolCall) for part in choice.parts),
        refused=any(isinstance(part, Refusal) for part in choice.parts),
    )
