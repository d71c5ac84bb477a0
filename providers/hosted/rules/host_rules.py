"""The rules of hosts that speak OpenAI's dialects: how much they take of what. Only what is said is looked at."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from providers.adapters.messages import drop_unsupported_parts, rename_developer_role, rename_reasoning
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, NeutralValues, UnsupportedFields
from providers.canonical.raw_json import NULL, Body
from providers.hosted.rules.assistant_messages import drop_assistant_fields
from providers.hosted.rules.tool_rules import drop_tool_calls, enforce_tool_rules

_OPENAI_CHAT, _OPENAI_COMPLETIONS = "openai_chat", "openai_completions"


class HostRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """None, or empty: there is no such rule, or none that is known. What breaks one is refused with the rule's name, if it is not let go.

    `max_tokens`: the one name that its chat has for that. `developer`: whether it knows that role, or is told `system` in its place.
    `tool_names`: a regex for the whole name. `tool_choices`: of auto, none, required, named. `functions_only`: it takes no custom tools.
    `parts`: types of content that it does not take, with why. `reasoning`: what it calls the reasoning of an answer that is given back.
    `given_back`: what else an assistant's message may have, of what answers tell beyond text and calls. `ranges`: of numbers, both ends
    included. `only`: fields with all values that they may have. `together`: pairs of fields that it does not take both.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] | None = None
    developer_role: bool = True
    max_stops: int | None = None
    max_tools: int | None = None
    tool_names: str | None = None
    tool_choices: frozenset[str] | None = None
    functions_only: bool = False
    unsupported_parts: Mapping[str, str] = {}
    reasoning_field: Literal["reasoning", "reasoning_content"] | None = None
    assistant_fields: frozenset[str] | None = None
    ranges: Mapping[str, tuple[float, float]] = {}
    allowed_values: Mapping[str, Sequence[Any]] = {}
    exclusive_fields: Sequence[tuple[str, str]] = ()


# Values that ask for nothing, of fields that some host does not have.
_NEUTRAL_VALUES: NeutralValues = {
    **NEUTRAL_VALUES,
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
_NEUTRAL_VALUES_IN_COMPLETIONS: NeutralValues = {field: values for field, values in _NEUTRAL_VALUES.items() if field != "logprobs"}


def enforce_rules(
    body: Body, dialect: str, rules: HostRules, host_unsupported: frozenset[str], unsupported_fields: UnsupportedFields
) -> None:
    """Makes a body keep the rules where its meaning stays. Raises Unsupported, which names the rule, for what cannot go."""
    if dialect not in (_OPENAI_CHAT, _OPENAI_COMPLETIONS):
        return
    unknown = host_unsupported & body.keys()
    if unknown:
        neutral_values = _NEUTRAL_VALUES if dialect == _OPENAI_CHAT else _NEUTRAL_VALUES_IN_COMPLETIONS
        unsupported_fields.drop_neutral({field: neutral_values.get(field, ()) for field in unknown})
    if rules.max_stops is not None and body.has_value("stop"):
        _enforce_max_stops(body, rules.max_stops, unsupported_fields)
    for field, (minimum, maximum) in rules.ranges.items():
        value = body.value(field) if field in body else None
        if value is not None and not minimum <= value <= maximum:
            unsupported_fields.drop_or_refuse(field, f"it takes {minimum:g} to {maximum:g}, and this is {value:g}.")
    for field, values in rules.allowed_values.items():
        if body.has_value(field) and (value := body.value(field)) not in values:
            unsupported_fields.drop_or_refuse(field, f"it takes {', '.join(map(str, values))}, and this is {value!s:.80}.")
    for first, second in rules.exclusive_fields:
        if body.has_value(first) and body.has_value(second):
            unsupported_fields.drop_or_refuse(first, f"it does not take it together with `{second}`.")
    if dialect == _OPENAI_CHAT:
        if "tools" in host_unsupported:
            drop_tool_calls(body, unsupported_fields)
        _enforce_chat_rules(body, rules, unsupported_fields)


def _enforce_max_stops(body: Body, max_stops: int, unsupported_fields: UnsupportedFields) -> None:
    stops = body.value("stop")
    if isinstance(stops, list) and len(stops) > max_stops:  # pyright: ignore[reportUnknownArgumentType]
        unsupported_fields.drop_or_refuse("stop", f"it takes at most {max_stops} stop sequences, and these are {len(stops)}.")  # pyright: ignore[reportUnknownArgumentType]


def _enforce_chat_rules(body: Body, rules: HostRules, unsupported_fields: UnsupportedFields) -> None:
    if rules.max_tokens is not None:
        _rename_max_tokens(body, rules.max_tokens)
    if not rules.developer_role:
        rename_developer_role(body)
    if rules.reasoning_field is not None:
        rename_reasoning(body, rules.reasoning_field)
    if rules.assistant_fields is not None:
        drop_assistant_fields(body, rules.assistant_fields, unsupported_fields)
    if rules.unsupported_parts:
        drop_unsupported_parts(body, {f'"{kind}"'.encode(): why for kind, why in rules.unsupported_parts.items()}, unsupported_fields)
    if body.has_value("tools"):
        name_pattern = None if rules.tool_names is None else re.compile(rules.tool_names)
        enforce_tool_rules(body, unsupported_fields, rules.max_tools, name_pattern, rules.tool_choices, functions_only=rules.functions_only)


def _rename_max_tokens(body: Body, target_name: str) -> None:
    """`max_completion_tokens` wins where both are said, as at OpenAI."""
    newer, older = body.pop("max_completion_tokens", NULL), body.pop("max_tokens", NULL)
    if newer != NULL or older != NULL:
        body[target_name] = older if newer == NULL else newer
