"""The costs that recorded hosts report for a response, in millionths of a dollar."""

from collections.abc import Mapping
from typing import Any, cast


def expected_host_cost(usage: Mapping[str, Any]) -> int | None:
    """Returns the reported cost in millionths of a dollar, or None if the host says nothing.

    OpenRouter reports a number, Perplexity an object, and xAI ticks, of which a dollar has ten billion.
    """
    cost, ticks = usage.get("cost"), usage.get("cost_in_usd_ticks")
    if isinstance(cost, dict):
        return _rounded(1_000_000 * cast("dict[str, float]", cost)["total_cost"])
    if cost is not None:
        own = float(usage["cost_details"]["upstream_inference_cost"] or 0) if usage.get("is_byok") else 0.0
        return _rounded(1_000_000 * (float(cost) + own))
    return None if ticks is None else _rounded(float(ticks) / 10_000)


def _rounded(amount: float) -> int:
    return int(amount + 0.5)
