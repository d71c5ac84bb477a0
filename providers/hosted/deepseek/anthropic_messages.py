"""What DeepSeek's Messages take, and do nothing about.

Source: https://api-docs.deepseek.com/guides/anthropic_api, read 2026-11.
"""

from typing import Any

from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.hosted.deepseek.content_blocks import adapt_blocks

_IGNORED_FIELDS = ("top_k", "container", "mcp_servers")
_CACHEABLE_FIELDS = ("system", "tools", "messages")
_IGNORED_REASON = "its Messages do nothing about it."


def adapt_messages_body(body: Body, unsupported_fields: UnsupportedFields, *, may_think: bool) -> None:
    """Raises Unsupported. `thinks`: it may, in the answer to this."""
    for field in _IGNORED_FIELDS:
        if body.has_value(field) and body.value(field) != []:
            unsupported_fields.drop_or_refuse(field, _IGNORED_REASON)
    if body.has_value("service_tier"):
        unsupported_fields.dropped.append("service_tier")
        del body["service_tier"]
    _adapt_tool_choice(body, unsupported_fields)
    _adapt_thinking(body, unsupported_fields)
    adapt_blocks(body, unsupported_fields, may_think=may_think)
    # It caches by itself; what it is told of that stays, for a host that reads it one day.
    if any(b'"cache_control"' in bytes(as_raw(body[key])) for key in _CACHEABLE_FIELDS if body.has_value(key)):
        unsupported_fields.dropped.append("cache_control")


def _adapt_tool_choice(body: Body, unsupported_fields: UnsupportedFields) -> None:
    choice: Any = body.value("tool_choice")
    if isinstance(choice, dict) and "disable_parallel_tool_use" in choice:
        if choice["disable_parallel_tool_use"]:
            unsupported_fields.drop_path_or_refuse("tool_choice.disable_parallel_tool_use", _IGNORED_REASON)
        body["tool_choice"] = {key: value for key, value in choice.items() if key != "disable_parallel_tool_use"}  # pyright: ignore[reportUnknownVariableType]


def _adapt_thinking(body: Body, unsupported_fields: UnsupportedFields) -> None:
    """It is on or off; how much it thinks is said by `output_config.effort`."""
    thinking: Any = body.value("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") not in ("enabled", "adaptive"):  # pyright: ignore[reportUnknownMemberType]
        return
    if "budget_tokens" in thinking:
        unsupported_fields.dropped.append("thinking.budget_tokens")
    if thinking != {"type": "enabled"}:
        body["thinking"] = {"type": "enabled"}
