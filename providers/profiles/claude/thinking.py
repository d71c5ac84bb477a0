"""Thinking settings as the Claude model accepts them: a budget, adaptive thinking, or an effort.

Source: https://platform.claude.com/docs/en/build-with-claude/thinking and /extended-thinking, read 2026-11.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Effort, Opaque, Reasoning, Thinking, ToolCall
from providers.drop_policy import DropPolicy
from providers.profiles.claude.models import ClaudeProfile

_MIN_BUDGET_TOKENS = 1024
# Budgets for models without effort levels: our own choice, without a source.
_BUDGET_TOKENS_BY_EFFORT: Mapping[Effort, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 31999}
_LEVELS: tuple[Effort, ...] = ("low", "medium")
_EFFORT_ORDER: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
_ANTHROPIC_MESSAGES = "anthropic_messages"


def adapt_thinking(chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy) -> Thinking | None:
    """The chat's thinking in the form that the model accepts; None: no thinking settings are sent."""
    thinking = chat.thinking
    if thinking is None or not (thinking.effort or thinking.adaptive or thinking.budget_tokens is not None):
        return thinking
    field = "thinking.effort" if thinking.effort is not None else "thinking.budget_tokens"
    if thinking.effort == "none":
        if profile.can_disable_thinking:
            return thinking
        drop_policy.drop_hint(field)  # it cannot be turned off
        thinking = replace(thinking, effort="low")
    if profile.thinking_mode == "never":
        if thinking.budget_tokens is not None:
            drop_policy.drop_or_refuse("thinking.budget_tokens", "this model does not support thinking.")
        else:
            drop_policy.drop_hint(field)
        return None
    adapted = (
        _with_budget(chat, thinking, drop_policy)
        if profile.thinking_mode == "budget"
        else _with_effort(chat, thinking, profile, drop_policy)
    )
    if adapted is not None and adapted.budget_tokens is not None and _lacks_thinking_before_calls(chat):
        drop_policy.drop_or_refuse(
            field, "thinking with tool results requires the thinking blocks of the message with the tool calls, which are missing."
        )
        return None
    return adapted if adapted is None else replace(adapted, effort=_nearest_effort(adapted.effort, profile, drop_policy))


def is_thinking_enabled(thinking: Thinking | None) -> bool:
    return (
        thinking is not None
        and thinking.effort != "none"
        and (thinking.adaptive or thinking.effort is not None or has_thinking_budget(thinking))
    )


def has_thinking_budget(thinking: Thinking | None) -> bool:
    """Whether thinking has a token budget, which is incompatible with more than adaptive thinking is."""
    return thinking is not None and thinking.budget_tokens is not None


def _with_budget(chat: ChatRequest, thinking: Thinking, drop_policy: DropPolicy) -> Thinking | None:
    """With a budget below the caller's max_tokens; without max_tokens, RequestDefaults adds the budget to the default."""
    requested_budget = thinking.budget_tokens
    budget = (
        _BUDGET_TOKENS_BY_EFFORT[thinking.effort or "medium"] if requested_budget is None else max(requested_budget, _MIN_BUDGET_TOKENS)
    )
    if chat.max_tokens is not None and not chat.tools:
        budget = min(budget, chat.max_tokens - 1)
    if budget < _MIN_BUDGET_TOKENS:
        field = "thinking.budget_tokens" if thinking.effort is None else "thinking.effort"
        drop_policy.drop_or_refuse(field, f"thinking needs a budget of at least {_MIN_BUDGET_TOKENS} tokens, below `max_tokens`.")
        return None
    if requested_budget not in (None, budget):
        drop_policy.drop_hint("thinking.budget_tokens")
    return replace(thinking, budget_tokens=budget, adaptive=False)


def _with_effort(chat: ChatRequest, thinking: Thinking, profile: ClaudeProfile, drop_policy: DropPolicy) -> Thinking | None:
    budget = thinking.budget_tokens
    if budget is None:
        return thinking
    if profile.thinking_mode == "either":
        return _with_budget(chat, thinking, drop_policy)
    drop_policy.drop_hint("thinking.budget_tokens")
    level = next((each for each in _LEVELS if budget <= _BUDGET_TOKENS_BY_EFFORT[each]), "high")
    return replace(thinking, budget_tokens=None, adaptive=True, effort=thinking.effort or level)


def _nearest_effort(effort: Effort | None, profile: ClaudeProfile, drop_policy: DropPolicy) -> Effort | None:
    """The effort, or the next lower one that the model supports; None for a model without efforts, which has a budget instead."""
    if not effort or not profile.efforts:
        return effort if profile.efforts is None else None
    if effort == "minimal" or effort in profile.efforts:
        return effort
    lower_efforts: list[Effort] = [each for each in profile.efforts if _EFFORT_ORDER.index(each) < _EFFORT_ORDER.index(effort)]
    drop_policy.drop_hint("thinking.effort")
    return lower_efforts[-1]


def _lacks_thinking_before_calls(chat: ChatRequest) -> bool:
    """Whether the last messages are tool calls and their results, and the assistant message has no thinking blocks of Anthropic's."""
    if len(chat.messages) < 2 or chat.messages[-2].role != "assistant" or chat.messages[-1].role != "user":
        return False
    parts = chat.messages[-2].parts
    has_thinking = any(
        (isinstance(part, Reasoning) and part.opaque_state is not None and part.opaque_state.origin == _ANTHROPIC_MESSAGES)
        or (isinstance(part, Opaque) and part.origin == _ANTHROPIC_MESSAGES)
        for part in parts
    )
    return any(isinstance(part, ToolCall) for part in parts) and not has_thinking
