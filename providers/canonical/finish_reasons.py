"""Finish reasons, as the record has them."""

# OpenAI's own, and hosts' words for endings that are no surprise.
_USUAL_REASONS = frozenset(
    {
        *("stop", "length", "tool_calls", "function_call"),
        *("stop_sequence", "pause_turn", "eos", "eos_token"),
        *("max_tokens", "model_length", "model_context_window_exceeded"),
    }
)


def recorded_finish_reason(reason: str | None, upstream_finish_reason: str | None) -> str | None:
    """OpenAI's finish reason; where it stands for one of the host that is not known, the host's own."""
    if reason in (None, "content_filter") or not upstream_finish_reason or upstream_finish_reason in _USUAL_REASONS:
        return reason
    return upstream_finish_reason[:100]
