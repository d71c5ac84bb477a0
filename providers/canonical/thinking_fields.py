"""How callers of chat say how much a model reasons: OpenAI's `reasoning_effort`, and other APIs' objects that SDKs send to chat, too.

`thinking: {"type": ..., "budget_tokens": ...}` is Anthropic's, DeepSeek's, Kimi's and GLM's; `reasoning: {"effort": ...}` OpenRouter's and
that of Responses. A host that reads neither answers 400 (OpenAI: "Unknown parameter: 'thinking'") or passes over it.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

from providers.canonical.chat import Effort, Thinking
from providers.canonical.raw_json import Body

_EFFORTS = frozenset(get_args(Effort))
_OBJECTS = ("thinking", "reasoning")
_SUMMARY_MEMBERS = ("summary", "generate_summary", "display", "exclude")
# The members that read_thinking_object() reads.
READ_MEMBERS = frozenset({"type", "enabled", "effort", "budget_tokens", "max_tokens", *_SUMMARY_MEMBERS})
_AMOUNTS = READ_MEMBERS.difference(_SUMMARY_MEMBERS)
_NOTHING: tuple[Any, ...] = (None, False, "", [], {})


def read_thinking_object(value: Any) -> Thinking | None:
    """Returns the thinking that such an object requests, or None if it is no such object or requests nothing."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    budget, effort, summary = fields.get("budget_tokens", fields.get("max_tokens")), fields.get("effort"), _read_summary(fields)
    if fields.get("type") == "disabled" or fields.get("enabled") is False:
        return Thinking(effort="none")
    if effort in _EFFORTS:
        return Thinking(effort=effort, summary=summary)
    if isinstance(budget, int) and not isinstance(budget, bool) and budget > 0:
        return Thinking(budget_tokens=budget, summary=summary)
    if fields.get("type") in ("enabled", "adaptive") or fields.get("enabled") is True:
        return Thinking(adaptive=True, summary=summary)
    return None if summary is None else Thinking(summary=summary)


def _read_summary(fields: Mapping[str, Any]) -> str | None:
    """How the reasoning is shown: `summary` of Responses, `display` of Anthropic, `exclude` of OpenRouter."""
    if fields.get("exclude") is True:
        return "omitted"
    summary = fields.get("summary") or fields.get("generate_summary") or fields.get("display")
    return "auto" if summary == "summarized" else summary if isinstance(summary, str) and summary else None


def summary_field(value: Any) -> str | None:
    """The member of such an object that says how the reasoning is shown."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    return next((name for name in _SUMMARY_MEMBERS if fields.get(name)), None)


def effort_for_budget(budget_tokens: int) -> Effort:
    """The effort that stands for a number of tokens, which most hosts cannot be told."""
    return "low" if budget_tokens <= 2048 else "medium" if budget_tokens <= 8192 else "high"


def write_effort(body: Body, read_by_host: frozenset[str]) -> list[str]:
    """Writes the objects as `reasoning_effort`, which wins where it is set, too, unless thinking is off. Returns what is reported.

    That is a budget, in whose place an effort stands, a mere wish to think, and members that say something else. `read_by_host` are the
    objects that the host reads itself.
    """
    reported: list[str] = []
    for field in _OBJECTS:
        if field in read_by_host or not isinstance(decoded := body.value(field), dict):
            continue
        value = cast("dict[str, Any]", decoded)
        thinking = read_thinking_object(value)
        del body[field]
        if thinking is None:
            reported += [field] if any(each not in _NOTHING for each in value.values()) else []
        elif body.has_value("reasoning_effort"):
            if thinking.effort == "none":
                body["reasoning_effort"] = "none"
            elif not thinking.adaptive:
                reported.append(field)
        elif thinking.effort is not None:
            body["reasoning_effort"] = thinking.effort
        elif thinking.budget_tokens is not None:
            body["reasoning_effort"] = effort_for_budget(thinking.budget_tokens)
            reported.append(f"{field}.{'budget_tokens' if 'budget_tokens' in value else 'max_tokens'}")
        else:
            reported.append(field)
        if field not in reported:
            reported += [f"{field}.{name}" for name, each in value.items() if name not in _AMOUNTS and each not in _NOTHING]
    return reported
