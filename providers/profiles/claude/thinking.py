"""Thinking settings as the Claude model accepts them: a budget, adaptive thinking, an effort, or none.

Source: https://platform.claude.com/docs/en/build-with-claude/thinking, /extended-thinking and /effort, read 2026-11.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
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
# Hosts of Claude whose thinking blocks, and their signatures, are valid at all of them.
_CLAUDE_DIALECTS = (_ANTHROPIC_MESSAGES, "bedrock_converse")
# Where a caller of Messages says an effort beside thinking that is switched off.
EFFORT_BESIDE_NO_THINKING = "output_config.effort"


def adapt_thinking(chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy) -> ChatRequest:
    """The chat with thinking settings in the form that the model accepts; without them, none are sent."""
    thinking = chat.thinking
    if thinking is None or not (thinking.effort or thinking.adaptive or thinking.budget_tokens is not None):
        return chat
    if thinking.effort == "none":
        if profile.thinking_off != "never":
            return _switch_off(chat, thinking, profile, drop_policy)
        chat, thinking = _switch_on(chat, thinking, drop_policy)
    return replace(chat, thinking=_adapt(chat, thinking, profile, drop_policy))


def adapt_relayed_effort(chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy) -> ChatRequest:
    """Returns the chat with an effort that the model has.

    A gateway that translates to Claude itself makes a budget of it where that is needed.
    """
    thinking = chat.thinking
    if thinking is None or thinking.effort is None or not profile.efforts:
        return chat
    if thinking.effort == "none":
        return replace(chat, thinking=_switch_on(chat, thinking, drop_policy)[1]) if profile.thinking_off == "never" else chat
    return replace(chat, thinking=replace(thinking, effort=_nearest_effort(thinking.effort, profile, drop_policy)))


def is_thinking_enabled(thinking: Thinking | None) -> bool:
    return (
        thinking is not None
        and thinking.effort != "none"
        and (thinking.adaptive or thinking.effort is not None or has_thinking_budget(thinking))
    )


def has_thinking_budget(thinking: Thinking | None) -> bool:
    """Whether thinking has a token budget, which is incompatible with more than adaptive thinking is."""
    return thinking is not None and thinking.budget_tokens is not None


def _switch_off(chat: ChatRequest, thinking: Thinking, profile: ClaudeProfile, drop_policy: DropPolicy) -> ChatRequest:
    if profile.thinking_mode == "never":
        return replace(chat, thinking=None)
    effort = _effort_beside(chat)
    extra = chat.extra
    if effort is not None:
        known = profile.efforts if profile.efforts is not None else _EFFORT_ORDER
        highest = profile.max_effort_while_off or "max"
        taken = [each for each in known if _EFFORT_ORDER.index(each) <= min(_EFFORT_ORDER.index(effort), _EFFORT_ORDER.index(highest))]
        if effort not in taken:
            drop_policy.drop_hint("thinking.effort")
            extra = {key: value for key, value in extra.items() if key != EFFORT_BESIDE_NO_THINKING}
            if taken:
                extra[EFFORT_BESIDE_NO_THINKING] = Raw(msgspec.json.encode(taken[-1]))
    return replace(chat, thinking=replace(thinking, between_tools=profile.thinking_off == "between_tools"), extra=extra)


def _switch_on(chat: ChatRequest, thinking: Thinking, drop_policy: DropPolicy) -> tuple[ChatRequest, Thinking]:
    """Switches thinking on for a model that always thinks.

    It thinks as little as it can, or with the effort that a caller of Messages gives beside.
    """
    effort = _effort_beside(chat)
    drop_policy.drop_hint("thinking.effort" if effort is None else "thinking")
    extra = {key: value for key, value in chat.extra.items() if key != EFFORT_BESIDE_NO_THINKING}
    return replace(chat, extra=extra), replace(thinking, effort=effort or "low", between_tools=False)


def _effort_beside(chat: ChatRequest) -> Effort | None:
    effort = msgspec.json.decode(chat.extra.get(EFFORT_BESIDE_NO_THINKING, b"null"))
    return effort if effort in _EFFORT_ORDER else None


def _adapt(chat: ChatRequest, thinking: Thinking, profile: ClaudeProfile, drop_policy: DropPolicy) -> Thinking | None:
    field = "thinking.effort" if thinking.effort is not None else "thinking.budget_tokens"
    if profile.thinking_mode == "never":
        if thinking.budget_tokens is not None:
            drop_policy.drop_or_refuse("thinking.budget_tokens", "this model does not support thinking.")
        else:
            drop_policy.drop_hint(field)
        return None
    if chat.origin == _ANTHROPIC_MESSAGES and not thinking.adaptive and thinking.budget_tokens is None:
        # There an effort does not switch thinking on.
        effort = _nearest_effort(thinking.effort, profile, drop_policy)
        return None if effort is None else replace(thinking, effort=effort)
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
    if adapted is not None and adapted.budget_tokens is not None and not profile.efforts:
        return replace(adapted, effort=adapted.effort if profile.efforts is None else None)  # the budget says it
    return adapted if adapted is None else replace(adapted, effort=_nearest_effort(adapted.effort, profile, drop_policy))


def _with_budget(chat: ChatRequest, thinking: Thinking, drop_policy: DropPolicy) -> Thinking | None:
    """Returns the thinking with a budget, which is below the caller's max_tokens unless the chat has tools.

    Without max_tokens, RequestDefaults adds the budget to the default. Returns None if no budget fits and thinking may be dropped.
    """
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
    """The effort, or the next lower one that the model supports; None for a model without efforts."""
    if effort is None or profile.efforts is None:
        return effort
    if not profile.efforts:
        drop_policy.drop_hint("thinking.effort")
        return None
    if effort == "minimal" or effort in profile.efforts:
        return effort
    lower_efforts: list[Effort] = [each for each in profile.efforts if _EFFORT_ORDER.index(each) < _EFFORT_ORDER.index(effort)]
    drop_policy.drop_hint("thinking.effort")
    return lower_efforts[-1]


def _lacks_thinking_before_calls(chat: ChatRequest) -> bool:
    """Whether the last messages are tool calls and their results, and the assistant message has no thinking blocks of Claude's."""
    if len(chat.messages) < 2 or chat.messages[-2].role != "assistant" or chat.messages[-1].role != "user":
        return False
    parts = chat.messages[-2].parts
    has_thinking = any(
        (isinstance(part, Reasoning) and part.opaque_state is not None and part.opaque_state.origin in _CLAUDE_DIALECTS)
        or (isinstance(part, Opaque) and part.origin in _CLAUDE_DIALECTS)
        for part in parts
    )
    return any(isinstance(part, ToolCall) for part in parts) and not has_thinking
