"""How much to reason, as thinkingConfig: a level from Gemini 3 on, a budget of tokens before.

Source: https://ai.google.dev/gemini-api/docs/thinking, and for efforts as budgets Google's own table for OpenAI clients,
https://ai.google.dev/gemini-api/docs/openai#thinking, both read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from providers.canonical.chat import Effort, Thinking
from providers.drop_policy import DropPolicy
from providers.profiles.efforts import nearest_effort
from providers.profiles.gemini import GeminiProfile

_BUDGETS: Mapping[str, int] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 24_576, "max": 24_576}
_DYNAMIC = -1


def write_thinking(
    thinking: Thinking | None, profile: GeminiProfile, drop_policy: DropPolicy, *, shows_thoughts: bool = True
) -> dict[str, Any] | None:
    """The thinkingConfig; None leaves it to the model.

    Requested thinking is also returned if `shows_thoughts`: callers of other APIs have a field for it, and none to ask for it.
    """
    if thinking is None:
        return None
    if thinking.effort == "none":
        return _disabled(profile, drop_policy)
    wants_thinking = thinking.effort is not None or thinking.budget_tokens is not None or thinking.adaptive
    if not profile.levels and profile.budget_range is None:
        if wants_thinking or thinking.summary is not None:
            drop_policy.drop_hint("thinking")
        return None
    config = _level(thinking, profile, drop_policy) if profile.levels else _budget(thinking, profile, drop_policy)
    if thinking.summary != "omitted" and ((wants_thinking and shows_thoughts) or thinking.summary is not None):
        config["includeThoughts"] = True
    return config or None


def _disabled(profile: GeminiProfile, drop_policy: DropPolicy) -> dict[str, Any] | None:
    if profile.levels or (profile.budget_range is not None and not profile.can_disable_thinking):
        drop_policy.drop_hint("thinking")  # it cannot be switched off
        if profile.levels:
            return {"thinkingLevel": profile.levels[0]}
        assert profile.budget_range is not None
        return {"thinkingBudget": profile.budget_range[0]}
    return None if profile.budget_range is None else {"thinkingBudget": 0}


def _level(thinking: Thinking, profile: GeminiProfile, drop_policy: DropPolicy) -> dict[str, Any]:
    """A budget becomes the nearest level: the newest of these models ignore budgets."""
    effort = thinking.effort
    if thinking.budget_tokens is not None:
        drop_policy.drop_hint("thinking.budget_tokens")
        effort = effort or _budget_level(thinking.budget_tokens)
    if effort is None:
        return {}
    level = nearest_effort(effort, profile.levels)
    if level != effort:
        drop_policy.drop_hint("thinking.effort")
    return {"thinkingLevel": level}


def _budget_level(tokens: int) -> Effort:
    return "low" if tokens <= _BUDGETS["low"] else "medium" if tokens <= _BUDGETS["medium"] else "high"


def _budget(thinking: Thinking, profile: GeminiProfile, drop_policy: DropPolicy) -> dict[str, Any]:
    """A budget above the model's maximum becomes the maximum, which the model would not exceed anyway."""
    assert profile.budget_range is not None
    min_tokens, max_tokens = profile.budget_range
    if thinking.budget_tokens is not None:
        budget = min(max(thinking.budget_tokens, min_tokens), max_tokens)
        if budget != thinking.budget_tokens:
            drop_policy.drop_hint("thinking.budget_tokens")
        return {"thinkingBudget": budget}
    if thinking.effort is not None:
        if thinking.effort in ("minimal", "xhigh", "max"):
            drop_policy.drop_hint("thinking.effort")
        return {"thinkingBudget": _BUDGETS[thinking.effort]}
    return {"thinkingBudget": _DYNAMIC} if thinking.adaptive else {}
