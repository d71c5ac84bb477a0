"""How much to think, as thinkingConfig: a level from Gemini 3 on, a budget of tokens before.

Source: https://ai.google.dev/gemini-api/docs/thinking, and for efforts as budgets Google's own table for OpenAI's callers,
https://ai.google.dev/gemini-api/docs/openai#thinking, both read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from providers.chat import Thinking
from providers.dialect import Concessions
from providers.dialects.gemini.models import Rules

_BUDGETS: Mapping[str, int] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 24_576, "max": 24_576}
_LEVELS: Mapping[str, str] = {"xhigh": "high", "max": "high"}
_DYNAMIC = -1


def write_thinking(thinking: Thinking | None, rules: Rules, concessions: Concessions) -> dict[str, Any] | None:
    """None leaves it to the model. Where thinking is asked for, what was thought is asked for too: callers have a place for it."""
    if thinking is None:
        return None
    if thinking.effort == "none":
        return _none(rules, concessions)
    asks = thinking.effort is not None or thinking.budget_tokens is not None or thinking.adaptive
    if not rules.levels and rules.budgets is None:
        if asks or thinking.summary is not None:
            concessions.without("thinking", "this model does not think.")
        return None
    told = _level(thinking, rules, concessions) if rules.levels else _budget(thinking, rules, concessions)
    if thinking.summary != "omitted" and (asks or thinking.summary is not None):
        told["includeThoughts"] = True
    return told or None


def _none(rules: Rules, concessions: Concessions) -> dict[str, Any] | None:
    if rules.levels or (rules.budgets is not None and not rules.can_rest):
        concessions.without("thinking", "this model's thinking cannot be switched off; its least is a low effort.")
        return None
    return None if rules.budgets is None else {"thinkingBudget": 0}


def _level(thinking: Thinking, rules: Rules, concessions: Concessions) -> dict[str, Any]:
    """A budget is said as the level that comes near: the newest of these models pass over budgets."""
    effort = thinking.effort
    if thinking.budget_tokens is not None:
        concessions.hint("thinking.budget_tokens")
        effort = effort or next((each for each in ("low", "medium") if thinking.budget_tokens <= _BUDGETS[each]), "high")
    if effort is None:
        return {}
    level = _LEVELS.get(effort, effort)
    if level == "minimal" and not rules.minimal:
        level = "low"
    if level != effort:
        concessions.hint("thinking.effort")
    return {"thinkingLevel": level}


def _budget(thinking: Thinking, rules: Rules, concessions: Concessions) -> dict[str, Any]:
    """More than a model thinks at most is said as its most, which it would not exceed anyway."""
    assert rules.budgets is not None
    least, most = rules.budgets
    if thinking.budget_tokens is not None:
        budget = min(max(thinking.budget_tokens, least), most)
        if budget != thinking.budget_tokens:
            concessions.hint("thinking.budget_tokens")
        return {"thinkingBudget": budget}
    if thinking.effort is not None:
        if thinking.effort in ("minimal", "xhigh", "max"):
            concessions.hint("thinking.effort")
        return {"thinkingBudget": _BUDGETS[thinking.effort]}
    return {"thinkingBudget": _DYNAMIC} if thinking.adaptive else {}
