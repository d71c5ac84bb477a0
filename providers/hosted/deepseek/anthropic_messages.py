"""Fields that DeepSeek's Messages API accepts without effect.

Source: https://api-docs.deepseek.com/guides/anthropic_api, read 2026-11.
"""

from typing import Any

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.hosted.deepseek.content_blocks import adapt_blocks

_IGNORED_FIELDS = ("top_k", "container", "mcp_servers")
_CACHEABLE_FIELDS = ("system", "tools", "messages")
_IGNORED_REASON = "its Messages API ignores it."


def adapt_messages_body(body: Body, drop_policy: DropPolicy, *, may_think: bool) -> None:
    """Refuses, drops or reports what the API ignores. `may_think` says that thinking may be on for this request. Raises Unsupported."""
    for field in _IGNORED_FIELDS:
        if body.has_value(field) and body.value(field) != []:
            drop_policy.drop_or_refuse(field, _IGNORED_REASON)
    if body.has_value("service_tier"):
        drop_policy.report_dropped("service_tier")
        del body["service_tier"]
    _adapt_tool_choice(body, drop_policy)
    _adapt_thinking(body, drop_policy)
    adapt_blocks(body, drop_policy, may_think=may_think)
    # DeepSeek caches by itself. cache_control is reported as dropped but stays in the body, which does no harm.
    if any(b'"cache_control"' in bytes(as_raw(body[key])) for key in _CACHEABLE_FIELDS if body.has_value(key)):
        drop_policy.report_dropped("cache_control")


def _adapt_tool_choice(body: Body, drop_policy: DropPolicy) -> None:
    choice: Any = body.value("tool_choice")
    if isinstance(choice, dict) and "disable_parallel_tool_use" in choice:
        if choice["disable_parallel_tool_use"]:
            drop_policy.drop_path_or_refuse("tool_choice.disable_parallel_tool_use", _IGNORED_REASON)
        body["tool_choice"] = {key: value for key, value in choice.items() if key != "disable_parallel_tool_use"}  # pyright: ignore[reportUnknownVariableType]


def _adapt_thinking(body: Body, drop_policy: DropPolicy) -> None:
    """Thinking is only on or off here; `output_config.effort` sets how much. A budget is dropped and reported."""
    thinking: Any = body.value("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") not in ("enabled", "adaptive"):  # pyright: ignore[reportUnknownMemberType]
        return
    if "budget_tokens" in thinking:
        drop_policy.report_dropped("thinking.budget_tokens")
    if thinking != {"type": "enabled"}:
        body["thinking"] = {"type": "enabled"}
