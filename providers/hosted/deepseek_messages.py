"""What DeepSeek's Messages take, and do nothing about.

Source: https://api-docs.deepseek.com/guides/anthropic_api, read 2026-11.
"""

from typing import Any

from providers.hosted.deepseek_blocks import hold_blocks
from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import Body

_IGNORED = ("top_k", "container", "mcp_servers")
_MAY_CACHE = ("system", "tools", "messages")
_WHY = "its Messages do nothing about it."


def hold(body: Body, losses: Losses, *, thinks: bool) -> None:
    """Raises Unsupported. `thinks`: it may, in the answer to this."""
    for field in _IGNORED:
        if body.said(field) and body.value(field) != []:
            losses.without(field, _WHY)
    if body.said("service_tier"):
        losses.dropped.append("service_tier")
        del body["service_tier"]
    _hold_choice(body, losses)
    _hold_thinking(body, losses)
    hold_blocks(body, losses, thinks=thinks)
    # It caches by itself; what it is told of that stays, for a host that reads it one day.
    if any(b'"cache_control"' in bytes(as_raw(body[key])) for key in _MAY_CACHE if body.said(key)):
        losses.dropped.append("cache_control")


def _hold_choice(body: Body, losses: Losses) -> None:
    choice: Any = body.value("tool_choice")
    if isinstance(choice, dict) and "disable_parallel_tool_use" in choice:
        if choice["disable_parallel_tool_use"]:
            losses.part_with("tool_choice.disable_parallel_tool_use", _WHY)
        body["tool_choice"] = {key: value for key, value in choice.items() if key != "disable_parallel_tool_use"}  # pyright: ignore[reportUnknownVariableType]


def _hold_thinking(body: Body, losses: Losses) -> None:
    """It is on or off; how much it thinks is said by `output_config.effort`."""
    mode: Any = body.value("thinking")
    if not isinstance(mode, dict) or mode.get("type") not in ("enabled", "adaptive"):  # pyright: ignore[reportUnknownMemberType]
        return
    if "budget_tokens" in mode:
        losses.dropped.append("thinking.budget_tokens")
    if mode != {"type": "enabled"}:
        body["thinking"] = {"type": "enabled"}
