"""How much Claude is to reason, in the way that its model takes; and what cannot be asked of it while it does.

Source: https://platform.claude.com/docs/en/build-with-claude/thinking and /extended-thinking, read 2026-11.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from providers.chat import ChatRequest, Effort, Opaque, Reasoning, Thinking, ToolCall
from providers.dialect import Concessions
from providers.hosted.claude_models import Claude

_LEAST_BUDGET = 1024
# Of models that want a number of tokens where others know levels: a number for each, by no source but our own judgement.
_BUDGETS: Mapping[Effort, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 31999}
_LEVELS: tuple[Effort, ...] = ("low", "medium")
_ORDER: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
_ANTHROPIC = "anthropic_messages"


def fit_thinking(chat: ChatRequest, claude: Claude, concessions: Concessions) -> Thinking | None:
    thinking = chat.thinking
    if thinking is None or not (thinking.effort or thinking.adaptive or thinking.budget_tokens is not None):
        return thinking
    said = "thinking.effort" if thinking.effort is not None else "thinking.budget_tokens"
    if thinking.effort == "none":
        if claude.rests:
            return thinking
        concessions.without(said, "this model always reasons; `low` is the least.")
        return None
    if claude.thinks == "never":
        concessions.without(said, "this model does not reason.")
        return None
    told = _by_budget(chat, thinking, concessions) if claude.thinks == "budget" else _by_level(chat, thinking, claude, concessions)
    if told is not None and told.budget_tokens is not None and _calls_without_thought(chat):
        concessions.without(said, "an answer with calls is gone on with only if it is given back with the reasoning that it came with.")
        return None
    return told if told is None else replace(told, effort=_nearest(told.effort, claude, concessions))


def is_on(thinking: Thinking | None) -> bool:
    return thinking is not None and thinking.effort != "none" and (thinking.adaptive or thinking.effort is not None or is_manual(thinking))


def is_manual(thinking: Thinking | None) -> bool:
    """By a number of tokens, with which less goes together."""
    return thinking is not None and thinking.budget_tokens is not None


def _by_budget(chat: ChatRequest, thinking: Thinking, concessions: Concessions) -> Thinking | None:
    """Where nobody says how many tokens an answer may have, those of the budget are added to what is filled in (claude.Demands)."""
    wanted = thinking.budget_tokens
    budget = _BUDGETS[thinking.effort or "medium"] if wanted is None else max(wanted, _LEAST_BUDGET)
    if chat.max_tokens is not None and not chat.tools:
        budget = min(budget, chat.max_tokens - 1)
    if budget < _LEAST_BUDGET:
        field = "thinking.budget_tokens" if thinking.effort is None else "thinking.effort"
        concessions.without(field, f"it reasons with {_LEAST_BUDGET} tokens at least, and with fewer than `max_tokens`.")
        return None
    if wanted not in (None, budget):
        concessions.hint("thinking.budget_tokens")
    return replace(thinking, budget_tokens=budget, adaptive=False)


def _by_level(chat: ChatRequest, thinking: Thinking, claude: Claude, concessions: Concessions) -> Thinking | None:
    budget = thinking.budget_tokens
    if budget is None:
        return thinking
    if claude.thinks == "either":
        return _by_budget(chat, thinking, concessions)
    concessions.hint("thinking.budget_tokens")
    level = next((each for each in _LEVELS if budget <= _BUDGETS[each]), "high")
    return replace(thinking, budget_tokens=None, adaptive=True, effort=thinking.effort or level)


def _nearest(effort: Effort | None, claude: Claude, concessions: Concessions) -> Effort | None:
    """A level that the model does not know is told as the one below; a model that knows none has it as its budget."""
    if not effort or not claude.efforts:
        return effort if claude.efforts is None else None
    if effort == "minimal" or effort in claude.efforts:
        return effort
    known: list[Effort] = [each for each in claude.efforts if _ORDER.index(each) < _ORDER.index(effort)]
    concessions.hint("thinking.effort")
    return known[-1]


def _calls_without_thought(chat: ChatRequest) -> bool:
    """Whether the conversation stands between calls and their results, and of the reasoning before the calls nothing is left."""
    if len(chat.messages) < 2 or chat.messages[-2].role != "assistant" or chat.messages[-1].role != "user":
        return False
    parts = chat.messages[-2].parts
    kept = any(
        (isinstance(part, Reasoning) and part.seal is not None and part.seal.origin == _ANTHROPIC)
        or (isinstance(part, Opaque) and part.origin == _ANTHROPIC)
        for part in parts
    )
    return any(isinstance(part, ToolCall) for part in parts) and not kept
