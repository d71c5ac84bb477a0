"""Finish reasons, as the record has them."""

# Hosts' words for a stop that is no surprise.
_USUAL_STOPS = frozenset({"stop_sequence", "pause_turn", "eos", "eos_token"})


def recorded_finish_reason(reason: str | None, upstream_finish_reason: str | None) -> str | None:
    """OpenAI's finish reason; where it stands for one of the host that is not known (`stop`), the host's own."""
    if reason != "stop" or not upstream_finish_reason or upstream_finish_reason in _USUAL_STOPS:
        return reason
    return upstream_finish_reason[:100]
