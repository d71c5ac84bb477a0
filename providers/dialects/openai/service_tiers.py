"""Service tiers, as OpenAI names them."""

from typing import Any

_SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})


def read_service_tier(tier: str | None) -> str | None:
    """The tier; None for a host's own (Groq's on_demand), which means nothing to other dialects."""
    return tier if tier in _SERVICE_TIERS else None


def write_service_tier(tier: Any) -> str | None:
    """The tier by OpenAI's names, which official clients validate; None for any other value. Anthropic's `standard` is `default`."""
    if not isinstance(tier, str):
        return None
    return tier if tier in _SERVICE_TIERS else "default" if tier == "standard" else None
