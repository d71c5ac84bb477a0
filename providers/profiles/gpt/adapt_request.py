"""Adapts a request to the rules of an OpenAI model: its effort, and the sampling fields that it refuses while it reasons."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from providers.canonical.chat import ChatRequest, Effort, Tool
from providers.canonical.raw_json import Body
from providers.dialect_rule import DialectRule
from providers.drop_policy import DropPolicy
from providers.profiles.gpt.models import GptRules

_CHAT, _RESPONSES = "openai_chat", "openai_responses"
_EFFORT_ORDER: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Values with which a request asks for nothing (recorded: openai/03 has `temperature: 1` at gpt-5-nano).
_NEUTRAL_SAMPLING: Mapping[str, tuple[Any, ...]] = {
    "temperature": (None, 1),
    "top_p": (None, 1),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
}
_SAMPLING_FIELDS = frozenset(_NEUTRAL_SAMPLING)
# The fields of a body that these rules are about: a body with none of them is not looked at.
RULED_FIELDS = _SAMPLING_FIELDS | {"reasoning_effort", "reasoning", "include"}
_LOGPROBS_INCLUDE = "message.output_text.logprobs"
_TOOL_FIELDS = frozenset({"tools", "functions"})


def tools_rule(rules: GptRules) -> DialectRule | None:
    """Function tools go to the Responses API where Chat would refuse them: unless the effort is literally `none`, and allowed.

    Custom tools alone are served by Chat. Source: litellm 1.110.2, responses/bridge_check.py, read 2026-11.
    """
    if rules.has_tools_on_chat:
        return None
    takes_none = "none" in rules.efforts

    def needs_responses(chat: ChatRequest) -> bool:
        if not any(isinstance(tool, Tool) and not tool.custom for tool in chat.tools):
            return False
        return not (takes_none and chat.thinking is not None and chat.thinking.effort == "none")

    return DialectRule(_RESPONSES, _TOOL_FIELDS, needs_responses)


def adapt_request(body: Body, dialect: str, rules: GptRules, drop_policy: DropPolicy) -> None:
    """Raises Unsupported for what the model refuses and the caller does not allow to be dropped."""
    if dialect not in (_CHAT, _RESPONSES) or RULED_FIELDS.isdisjoint(body):
        return
    effort = _adapt_chat_effort(body, rules, drop_policy) if dialect == _CHAT else _adapt_reasoning(body, rules, drop_policy)
    if not rules.reasons_with(effort):
        return
    way_out = _drop_sampling(body, rules, drop_policy)
    if dialect == _RESPONSES and body.has_value("include"):
        _drop_logprobs(body, way_out, drop_policy)


def adapt_relayed(body: Body, rules: GptRules, drop_policy: DropPolicy) -> None:
    """Adapts a body for a gateway of OpenAI's Chat that finds the nearest effort itself, except for `none`.

    The gateway takes an effort in `reasoning`, too. It refuses fields that no host of the model lists, also with their neutral values:
    those are removed without a report.
    """
    effort = _relayed_effort(body)
    if effort == "none" and rules.efforts and "none" not in rules.efforts:
        effort = rules.efforts[0]
        _set_relayed_effort(body, effort, drop_policy)
    if not rules.reasons_with(_nearest_effort(effort, rules.efforts) if effort is not None else None):
        return
    for field in _SAMPLING_FIELDS & body.keys():
        if body.value(field) in _NEUTRAL_SAMPLING[field]:
            del body[field]
    _drop_sampling(body, rules, drop_policy)


def _relayed_effort(body: Body) -> Any:
    """The caller's own `reasoning` wins, as it does at OpenRouter."""
    reasoning: Any = body.value("reasoning") if "reasoning" in body else None
    effort = cast("dict[str, Any]", reasoning).get("effort") if isinstance(reasoning, dict) else None
    return effort if effort is not None or "reasoning_effort" not in body else body.value("reasoning_effort")


def _set_relayed_effort(body: Body, effort: Effort, drop_policy: DropPolicy) -> None:
    reasoning: Any = body.value("reasoning") if "reasoning" in body else None
    if isinstance(reasoning, dict) and "effort" in reasoning:
        body["reasoning"] = {**reasoning, "effort": effort}
        drop_policy.report_dropped("reasoning.effort")
    else:
        body["reasoning_effort"] = effort
        drop_policy.report_dropped("reasoning_effort")


def _drop_sampling(body: Body, rules: GptRules, drop_policy: DropPolicy) -> str:
    """Drops or refuses what a model does not take while it reasons, and returns why."""
    why = f"its model {body.value('model')} refuses it while it reasons"
    way_out = f"{why}; with the effort none it does not reason." if "none" in rules.efforts else f"{why}."
    for field in sorted(_SAMPLING_FIELDS & body.keys()):
        if body.value(field) not in _NEUTRAL_SAMPLING[field]:
            drop_policy.drop_missing(field, way_out)
    return way_out


def _adapt_chat_effort(body: Body, rules: GptRules, drop_policy: DropPolicy) -> str | None:
    """The effort that is sent; None: none is."""
    if not body.has_value("reasoning_effort"):
        return None
    effort = body.value("reasoning_effort")
    accepted = _nearest_effort(effort, rules.chat_efforts)
    if drop_policy.accepts("reasoning_effort") or accepted == effort:
        return effort
    if accepted is None:
        drop_policy.drop_missing("reasoning_effort", f"its model {body.value('model')} has no effort.")
        return None
    drop_policy.report_dropped("reasoning_effort")
    body["reasoning_effort"] = accepted
    return accepted


def _adapt_reasoning(body: Body, rules: GptRules, drop_policy: DropPolicy) -> str | None:
    if not body.has_value("reasoning"):
        return None
    reasoning = body.value("reasoning")
    if not isinstance(reasoning, dict):
        return None
    fields = cast("dict[str, Any]", reasoning)
    effort = fields.get("effort")
    if effort is None or drop_policy.accepts("reasoning"):
        return effort
    accepted = _nearest_effort(effort, rules.efforts)
    if accepted != effort:
        drop_policy.report_dropped("reasoning.effort")
        body["reasoning"] = {**fields, "effort": accepted} if accepted is not None else {k: v for k, v in fields.items() if k != "effort"}
    return accepted


def _nearest_effort(effort: Any, accepted: Sequence[Effort]) -> Any:
    """The effort itself, or the accepted one that is nearest, of two the lower; None: there is none. An unknown one stays."""
    if not accepted:
        return None
    if effort in accepted or effort not in _EFFORT_ORDER:
        return effort
    wanted = _EFFORT_ORDER.index(effort)
    # A caller who wants some reasoning gets some.
    candidates = [each for each in accepted if each != "none"] if effort != "none" else accepted
    return min(candidates, key=lambda each: (abs(_EFFORT_ORDER.index(each) - wanted), _EFFORT_ORDER.index(each)))


def _drop_logprobs(body: Body, why: str, drop_policy: DropPolicy) -> None:
    include = body.value("include")
    if not isinstance(include, list) or _LOGPROBS_INCLUDE not in include:
        return
    values = cast("list[Any]", include)
    drop_policy.drop_path_or_refuse("include", why)
    body["include"] = [value for value in values if value != _LOGPROBS_INCLUDE]
