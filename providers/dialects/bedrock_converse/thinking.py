"""How much to reason, in the fields of each model family (`additionalModelRequestFields`).

Sources: docs/sources.md#bedrock; https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any

from providers.canonical.chat import ChatRequest, Effort, Thinking
from providers.drop_policy import DropPolicy
from providers.profiles.bedrock.families import Family
from providers.profiles.claude.thinking import EFFORT_BESIDE_NO_THINKING

Fields = dict[str, Any]

_LEVELS: Mapping[Effort, str] = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_QWEN_LEVELS: Mapping[Effort, str] = {"minimal": "low", "low": "low", "medium": "high", "high": "high", "xhigh": "high", "max": "high"}


def write_thinking(chat: ChatRequest, family: Family, drop_policy: DropPolicy) -> Fields:
    thinking = chat.thinking
    if thinking is None:
        return {}
    if thinking.summary is not None and family.reasoning_control != "claude":
        drop_policy.drop_hint("thinking.summary")
    return _WRITERS[family.reasoning_control](thinking, chat, drop_policy)


def _claude(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    """Writes thinking as Anthropic's Messages do.

    The profile has already adapted it to the model: see providers.profiles.claude.thinking.
    """
    if thinking.effort == "none":
        return {"thinking": {"type": "between_tools" if thinking.between_tools else "disabled"}, **_effort_beside(chat)}
    fields: Fields = {}
    if thinking.budget_tokens is not None:
        fields["thinking"] = {"type": "enabled", "budget_tokens": thinking.budget_tokens}
    elif thinking.adaptive or (thinking.effort is not None and not _is_from_anthropic(chat)):
        fields["thinking"] = {"type": "adaptive"}
    if thinking.effort is not None:
        fields["output_config"] = {"effort": "low" if thinking.effort == "minimal" else thinking.effort}
    if thinking.summary is not None and "thinking" in fields:
        fields["thinking"]["display"] = "omitted" if thinking.summary == "omitted" else "summarized"
    elif thinking.summary is not None:
        drop_policy.drop_hint("thinking.summary")
    return fields


def _effort_beside(chat: ChatRequest) -> Fields:
    """The effort that a caller of Messages gives although thinking is off."""
    effort = chat.extra.get(EFFORT_BESIDE_NO_THINKING)
    return {} if effort is None else {"output_config": {"effort": effort}}


def _nova(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    if thinking.effort == "none":
        return {"reasoningConfig": {"type": "disabled"}}
    level = _level(thinking, _LEVELS, drop_policy)
    if level == "high" and not (chat.max_tokens is None and chat.temperature is None and chat.top_p is None):
        # Nova takes none of them with a high effort. They ask for something, while an effort is a hint.
        drop_policy.drop_hint("thinking.effort")
        level = "medium"
    return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}


def _effort(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    if thinking.effort == "none":
        drop_policy.drop_hint("thinking")  # gpt-oss always reasons
        return {"reasoning_effort": "low"}
    return {"reasoning_effort": _level(thinking, _LEVELS, drop_policy)}


def _qwen(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    """Qwen reasons only if the request says so."""
    return {} if thinking.effort == "none" else {"reasoning_config": _level(thinking, _QWEN_LEVELS, drop_policy)}


def _not_supported(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    """Coding agents send an effort whatever the model: how hard it shall think is a hint. A budget demands reasoning."""
    if thinking.budget_tokens is not None:
        drop_policy.drop_or_refuse("thinking", "this model does not reason.")
    elif thinking.effort != "none":
        drop_policy.drop_hint("thinking")
    return {}


def _undocumented(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    """Treats thinking as for a model that does not reason, because no field for it is documented.

    An effort is a hint, which coding agents send whatever the model.
    """
    if thinking.budget_tokens is not None:
        drop_policy.drop_or_refuse("thinking", "how to request reasoning of this model is not documented for Converse.")
    else:
        drop_policy.drop_hint("thinking" if thinking.effort is None else "thinking.effort")
    return {}


def _unknown(thinking: Thinking, chat: ChatRequest, drop_policy: DropPolicy) -> Fields:
    drop_policy.drop_or_refuse("thinking", "how to request reasoning of this model is not known from its id.")
    return {}


def _level(thinking: Thinking, levels: Mapping[Effort, str], drop_policy: DropPolicy) -> str:
    """The nearest level. Another effort than the requested one is reported, and so is a budget, for which there is no field."""
    if thinking.budget_tokens is not None:
        drop_policy.drop_hint("thinking.budget_tokens")
    level = levels[thinking.effort or "medium"]
    if thinking.effort is not None and level != thinking.effort:
        drop_policy.drop_hint("thinking.effort")
    return level


def _is_from_anthropic(chat: ChatRequest) -> bool:
    return chat.origin == "anthropic_messages"


_WRITERS: Mapping[str, Callable[[Thinking, ChatRequest, DropPolicy], Fields]] = {
    "claude": _claude,
    "nova": _nova,
    "effort": _effort,
    "qwen": _qwen,
    "no": _not_supported,
    "undocumented": _undocumented,
    "unknown": _unknown,
}
