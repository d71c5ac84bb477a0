"""Finish reasons of OpenAI completions."""

from typing import Any

COMPLETION_REASONS = frozenset({"stop", "length", "content_filter"})


def write_finish_reason(reason: str | None, stop_sequence: str | None) -> dict[str, Any]:
    """Writes `finish_reason`, and vLLM's `stop_reason` if a stop sequence is known. A reason that completions do not have is a stop."""
    if reason is not None and reason not in COMPLETION_REASONS:
        reason = "stop"
    return {"finish_reason": reason} if stop_sequence is None else {"finish_reason": reason, "stop_reason": stop_sequence}
