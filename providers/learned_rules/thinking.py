"""A kind of thinking that a Claude model refuses, as the nearest one that it takes."""

from collections.abc import Mapping
from typing import Any, cast

from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.learned_rules.rule import LearnedRule

_FIELD = "thinking"
# Budgets up to which a lower effort asks for about as much; those of providers/profiles/claude/thinking.py, our own choice.
_BUDGETS = (("low", 2048), ("medium", 8192))
_BUDGETS_BY_EFFORT: Mapping[str, int] = {"low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 31999}
_MIN_BUDGET_TOKENS = 1024


def use_other_thinking(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Raises Unsupported where the caller's budget leaves no room for thinking."""
    thinking: Any = body.value(_FIELD) if _FIELD in body else None
    if not isinstance(thinking, dict) or cast("dict[str, Any]", thinking).get("type") != rule.field:
        return False
    fields = dict(cast("dict[str, Any]", thinking))
    match rule.field:
        case "disabled":
            _do_not_disable(body, rule, drop_policy)
        case "enabled":
            _think_adaptively(body, fields, drop_policy)
        case _:
            _think_with_budget(body, fields, drop_policy)
    return True


def is_thinking_off(body: Body) -> bool:
    """Whether the request switches thinking off, in any of the ways in which hosts take that."""
    thinking: Any = body.value(_FIELD) if _FIELD in body else None
    if isinstance(thinking, dict) and cast("dict[str, Any]", thinking).get("type") == "disabled":
        return True
    return body.value("enable_thinking") is False or body.value("reasoning_effort") == "none"


def _do_not_disable(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> None:
    """Thinking that cannot be turned off, but is kept short: a wish, as Claude's profile takes it."""
    drop_policy.report_dropped(_FIELD)
    if "between_tools" in rule.values:
        body[_FIELD] = {"type": "between_tools"}
        return
    del body[_FIELD]
    _set_effort(body, "low")


def _think_adaptively(body: Body, thinking: dict[str, Any], drop_policy: DropPolicy) -> None:
    budget = thinking.pop("budget_tokens", None)
    body[_FIELD] = {**thinking, "type": "adaptive"}
    if isinstance(budget, int):
        drop_policy.report_dropped(f"{_FIELD}.budget_tokens")
        _set_effort(body, next((effort for effort, most in _BUDGETS if budget <= most), "high"))


def _think_with_budget(body: Body, thinking: dict[str, Any], drop_policy: DropPolicy) -> None:
    output_config: Any = body.value("output_config") if "output_config" in body else None
    effort = cast("dict[str, Any]", output_config).get("effort") if isinstance(output_config, dict) else None
    budget, most = _BUDGETS_BY_EFFORT.get(str(effort), _BUDGETS_BY_EFFORT["medium"]), body.value("max_tokens")
    if isinstance(most, int) and most <= budget:
        budget = most - 1
    if budget < _MIN_BUDGET_TOKENS:
        drop_policy.drop_path_or_refuse(_FIELD, f"it thinks with {_MIN_BUDGET_TOKENS} tokens or more, which are part of `max_tokens`.")
        del body[_FIELD]
        return
    body[_FIELD] = {**thinking, "type": "enabled", "budget_tokens": budget}


def _set_effort(body: Body, effort: str) -> None:
    """Unless the caller has chosen one."""
    output_config: Any = body.value("output_config") if "output_config" in body else None
    fields = cast("dict[str, Any]", output_config) if isinstance(output_config, dict) else {}
    if fields.get("effort") is None:
        body["output_config"] = {**fields, "effort": effort}
