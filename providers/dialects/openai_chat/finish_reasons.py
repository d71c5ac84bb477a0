"""How an answer ended: finish reasons in OpenAI's words, and what engines say beyond them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai.finish_reasons import FINISH_REASONS
from providers.dialects.openai.stream_editor import check_finish_reason
from providers.dialects.openai_chat.response_schema import WireChoice

_OPENAI_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
# OpenAI's own word for calls before there were several, and those of engines.
_ENGINE_REASONS: Mapping[str, str] = {"function_call": "tool_calls", **FINISH_REASONS}

_SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})

_decode_text = msgspec.json.Decoder(str).decode


def read_finish_reason(choice: WireChoice) -> tuple[str | None, str | None, str | None]:
    """Finish reason, the engine's own word if it says more, and the stop sequence that ended it. Raises Failed for a reason that is one."""
    reason = choice.finish_reason
    if not reason:
        return None, None, None
    check_finish_reason(reason)
    stopped_by = _read_text(choice.stop_reason) or _read_text(choice.matched_stop)
    if stopped_by is not None and reason in ("stop", "stop_sequence"):
        return "stop", "stop_sequence", stopped_by
    if reason in _OPENAI_REASONS:
        return reason, None, None
    return _ENGINE_REASONS.get(reason, "stop"), reason, None


def _read_text(raw: Raw) -> str | None:
    """vLLM tells a number for a token that stopped it."""
    if raw is NULL:
        return None
    try:
        return _decode_text(raw) or None
    except DECODE_ERRORS:
        return None


def read_service_tier(tier: str | None) -> str | None:
    """Tiers of hosts of their own (Groq's on_demand) are of no meaning to anybody else."""
    return tier if tier in _SERVICE_TIERS else None


def write_service_tier(tier: Any) -> str | None:
    """In OpenAI's words, for official clients check them. Anthropic's `standard` is the default; other tiers are of no meaning here,

    nor is what is no word.
    """
    if not isinstance(tier, str):
        return None
    return tier if tier in _SERVICE_TIERS else "default" if tier == "standard" else None


def write_finish_reason(reason: str | None, stop_sequence: str | None, *, ended_with_calls: bool) -> dict[str, Any]:
    """`stop_reason`, as vLLM tells it, where a stop sequence is known: OpenAI has no word for that.

    `called`: it ended with calls, of an engine that says `stop` then.
    """
    if ended_with_calls and reason == "stop":
        reason = "tool_calls"
    return {"finish_reason": reason} if stop_sequence is None else {"finish_reason": reason, "stop_reason": stop_sequence}
