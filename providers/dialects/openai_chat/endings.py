"""How an answer ended: finish reasons in OpenAI's words, and what engines say beyond them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.dialects.openai_chat.shapes import ToldChoice
from providers.openai_endings import PLAIN
from providers.openai_stream import check_ending
from providers.wire import NULL, UNREADABLE

_SAME = frozenset({"stop", "length", "tool_calls", "content_filter"})
# OpenAI's own word for calls before there were several, and those of engines.
_OTHERS: Mapping[str, str] = {"function_call": "tool_calls", **PLAIN}

_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})

_read_text = msgspec.json.Decoder(str).decode


def read_ending(choice: ToldChoice) -> tuple[str | None, str | None, str | None]:
    """Finish reason, the engine's own word if it says more, and the stop sequence that ended it. Raises Failed for a reason that is one."""
    reason = choice.finish_reason
    if not reason:
        return None, None, None
    check_ending(reason)
    stopped_by = _text(choice.stop_reason) or _text(choice.matched_stop)
    if stopped_by is not None and reason in ("stop", "stop_sequence"):
        return "stop", "stop_sequence", stopped_by
    if reason in _SAME:
        return reason, None, None
    return _OTHERS.get(reason, "stop"), reason, None


def _text(told: Raw) -> str | None:
    """vLLM tells a number for a token that stopped it."""
    if told is NULL:
        return None
    try:
        return _read_text(told) or None
    except UNREADABLE:
        return None


def read_service_tier(told: str | None) -> str | None:
    """Tiers of hosts of their own (Groq's on_demand) are of no meaning to anybody else."""
    return told if told in _TIERS else None


def write_service_tier(told: Any) -> str | None:
    """In OpenAI's words, for official clients check them. Anthropic's `standard` is the default; other tiers are of no meaning here,

    nor is what is no word.
    """
    if not isinstance(told, str):
        return None
    return told if told in _TIERS else "default" if told == "standard" else None


def write_ending(reason: str | None, stop_sequence: str | None, *, called: bool) -> dict[str, Any]:
    """`stop_reason`, as vLLM tells it, where a stop sequence is known: OpenAI has no word for that.

    `called`: it ended with calls, of an engine that says `stop` then.
    """
    if called and reason == "stop":
        reason = "tool_calls"
    return {"finish_reason": reason} if stop_sequence is None else {"finish_reason": reason, "stop_reason": stop_sequence}
