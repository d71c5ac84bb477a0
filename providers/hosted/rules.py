"""The rules of hosts that speak OpenAI's dialects: how much they take of what. Only what is said is looked at."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from providers.hosted.given_back import leave_out_of_answers
from providers.hosted.tool_rules import hold_tools, leave_out_calls
from providers.losses import IDLE, Idle, Losses
from providers.thoughts import drop_parts, name_reasoning, name_system
from providers.wire import NULL, Body

_CHAT, _COMPLETIONS = "openai_chat", "openai_completions"


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """None, or empty: there is no such rule, or none that is known. What breaks one is refused with the rule's name, if it is not let go.

    `max_tokens`: the one name that its chat has for that. `developer`: whether it knows that role, or is told `system` in its place.
    `tool_names`: a regex for the whole name. `tool_choices`: of auto, none, required, named. `functions_only`: it takes no custom tools.
    `parts`: types of content that it does not take, with why. `reasoning`: what it calls the reasoning of an answer that is given back.
    `given_back`: what else an assistant's message may have, of what answers tell beyond text and calls. `ranges`: of numbers, both ends
    included. `only`: fields with all values that they may have. `together`: pairs of fields that it does not take both.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] | None = None
    developer: bool = True
    most_stops: int | None = None
    most_tools: int | None = None
    tool_names: str | None = None
    tool_choices: frozenset[str] | None = None
    functions_only: bool = False
    parts: Mapping[str, str] = {}
    reasoning: Literal["reasoning", "reasoning_content"] | None = None
    given_back: frozenset[str] | None = None
    ranges: Mapping[str, tuple[float, float]] = {}
    only: Mapping[str, Sequence[Any]] = {}
    together: Sequence[tuple[str, str]] = ()


# Values that ask for nothing, of fields that some host does not have.
_IDLE: Idle = {
    **IDLE,
    **{field: (0,) for field in ("presence_penalty", "frequency_penalty", "min_p", "min_tokens", "priority", "top_logprobs")},
    **{field: (False,) for field in ("ignore_eos", "include_stop_str_in_output", "continue_final_message", "logprobs", "store", "echo")},
    **{field: (True,) for field in ("skip_special_tokens", "spaces_between_special_tokens", "separate_reasoning", "parallel_tool_calls")},
    **{field: ({},) for field in ("logit_bias", "chat_template_kwargs", "mm_processor_kwargs", "metadata")},
    **{field: ([],) for field in ("stop", "stop_token_ids", "tools")},
    "n": (1,),
    "top_k": (-1, 0),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto", "none"),
}
# Of completions, `logprobs: 0` asks for those of the tokens that were chosen.
_IDLE_IN_COMPLETIONS: Idle = {field: values for field, values in _IDLE.items() if field != "logprobs"}


def hold(body: Body, dialect: str, rules: Rules, refuses: frozenset[str], losses: Losses) -> None:
    """Makes a body keep the rules where its meaning stays. Raises Unsupported, which names the rule, for what cannot go."""
    if dialect not in (_CHAT, _COMPLETIONS):
        return
    unknown = refuses & body.keys()
    if unknown:
        idle = _IDLE if dialect == _CHAT else _IDLE_IN_COMPLETIONS
        losses.leave_out({field: idle.get(field, ()) for field in unknown})
    if rules.most_stops is not None and body.said("stop"):
        _hold_stops(body, rules.most_stops, losses)
    for field, (least, most) in rules.ranges.items():
        value = body.value(field) if field in body else None
        if value is not None and not least <= value <= most:
            losses.without(field, f"it takes {least:g} to {most:g}, and this is {value:g}.")
    for field, values in rules.only.items():
        if body.said(field) and (value := body.value(field)) not in values:
            losses.without(field, f"it takes {', '.join(map(str, values))}, and this is {value!s:.80}.")
    for one, other in rules.together:
        if body.said(one) and body.said(other):
            losses.without(one, f"it does not take it together with `{other}`.")
    if dialect == _CHAT:
        if "tools" in refuses:
            leave_out_calls(body, losses)
        _hold_chat(body, rules, losses)


def _hold_stops(body: Body, most: int, losses: Losses) -> None:
    stops = body.value("stop")
    if isinstance(stops, list) and len(stops) > most:  # pyright: ignore[reportUnknownArgumentType]
        losses.without("stop", f"it takes at most {most} stop sequences, and these are {len(stops)}.")  # pyright: ignore[reportUnknownArgumentType]


def _hold_chat(body: Body, rules: Rules, losses: Losses) -> None:
    if rules.max_tokens is not None:
        _name_max_tokens(body, rules.max_tokens)
    if not rules.developer:
        name_system(body)
    if rules.reasoning is not None:
        name_reasoning(body, rules.reasoning)
    if rules.given_back is not None:
        leave_out_of_answers(body, rules.given_back, losses)
    if rules.parts:
        drop_parts(body, {f'"{kind}"'.encode(): why for kind, why in rules.parts.items()}, losses)
    if body.said("tools"):
        names = None if rules.tool_names is None else re.compile(rules.tool_names)
        hold_tools(body, losses, rules.most_tools, names, rules.tool_choices, functions_only=rules.functions_only)


def _name_max_tokens(body: Body, theirs: str) -> None:
    """`max_completion_tokens` wins where both are said, as at OpenAI."""
    newer, older = body.pop("max_completion_tokens", NULL), body.pop("max_tokens", NULL)
    if newer != NULL or older != NULL:
        body[theirs] = older if newer == NULL else newer
