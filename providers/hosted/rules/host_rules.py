"""Rules of hosts that speak OpenAI's dialects: limits of fields, and what a chat may contain."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from providers.adapters.messages import (
    drop_unsupported_parts,
    rename_developer_role,
    rename_reasoning,
    write_custom_calls_as_functions,
)
from providers.adapters.tool_names import ToolNames
from providers.canonical.chat import CacheMarkPlace
from providers.canonical.raw_json import NULL, Body
from providers.drop_policy import DropPolicy
from providers.fields import RARE_NEUTRAL_VALUES, NeutralValues
from providers.hosted.rules.assistant_messages import drop_assistant_fields
from providers.hosted.rules.foreign_members import drop_foreign_members
from providers.hosted.rules.text_content import join_text_content
from providers.hosted.rules.tool_results import flatten_tool_results
from providers.hosted.rules.tool_rules import add_missing_parameters, drop_tool_calls, enforce_tool_rules

_TOOL_NAMES = re.compile(r"(\[[^\]]+\])\{1,(\d+)\}")
_OPENAI_CHAT, _OPENAI_COMPLETIONS = "openai_chat", "openai_completions"


class HostRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one host. None or empty means that there is no such rule, or that none is known.

    A violation is refused, unless the caller allows dropping the field.
    """

    # The only name that its chat has for the token limit.
    max_tokens: Literal["max_tokens", "max_completion_tokens"] | None = None
    # False: the role `developer` is sent as `system`.
    developer_role: bool = True
    max_stops: int | None = None
    max_tools: int | None = None
    # A regex for the complete name.
    tool_names: str | None = None
    # Those that it takes, out of auto, none, required and named.
    tool_choices: frozenset[str] | None = None
    # It takes no custom tools.
    functions_only: bool = False
    # It takes the result of a tool as a string alone.
    text_results: bool = False
    # The roles whose messages it takes as a string alone, where they are all texts.
    text_roles: frozenset[str] = frozenset()
    # Where its chat reads Anthropic's `cache_control`: in a text, or beside the messages.
    cache_marks: frozenset[CacheMarkPlace] = frozenset()
    # The types of content parts that it does not support, with the reason.
    unsupported_parts: Mapping[str, str] = {}
    # Its name for the reasoning in an assistant message.
    reasoning_field: Literal["reasoning", "reasoning_content"] | None = None
    # The OPTIONAL_ASSISTANT_FIELDS that it accepts; None: all.
    assistant_fields: frozenset[str] | None = None
    # It passes over other members of messages, and reads marks of a cache.
    ignores_unknown_members: bool = False
    # Those of `thinking` and `reasoning` that it reads.
    thinking_fields: frozenset[str] = frozenset()
    # Inclusive ranges of numbers.
    ranges: Mapping[str, tuple[float, float]] = {}
    # Fields with all their values.
    allowed_values: Mapping[str, Sequence[Any]] = {}
    # Pairs of fields that exclude each other.
    exclusive_fields: Sequence[tuple[str, str]] = ()

    @property
    def valid_tool_names(self) -> ToolNames | None:
        """The rule in `tool_names`, if it is a class of characters with a length. Other names are mapped to such names.

        None means that there is no such rule.
        """
        matched = None if self.tool_names is None else _TOOL_NAMES.fullmatch(self.tool_names)
        return None if matched is None else ToolNames(matched[1], int(matched[2]))


# Neutral values of fields that some hosts do not have.
_NEUTRAL_VALUES: NeutralValues = {
    **RARE_NEUTRAL_VALUES,
    **{field: (0,) for field in ("presence_penalty", "frequency_penalty", "min_p", "min_tokens", "min_new_tokens")},
    **{field: (0,) for field in ("priority", "top_logprobs")},
    **{field: (False,) for field in ("ignore_eos", "include_stop_str_in_output", "continue_final_message", "logprobs", "store", "echo")},
    **{field: (True,) for field in ("skip_special_tokens", "spaces_between_special_tokens", "separate_reasoning", "parallel_tool_calls")},
    **{field: ({},) for field in ("logit_bias", "chat_template_kwargs", "mm_processor_kwargs", "metadata")},
    **{field: ([],) for field in ("stop", "stop_token_ids", "tools")},
    "n": (1,),
    "session_id": (-1,),
    "top_k": (-1, 0),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto", "none"),
}
# In completions, `logprobs: 0` is a request: for the log probabilities of the chosen tokens.
_NEUTRAL_VALUES_IN_COMPLETIONS: NeutralValues = {field: values for field, values in _NEUTRAL_VALUES.items() if field != "logprobs"}


def enforce_rules(body: Body, dialect: str, rules: HostRules, host_unsupported: frozenset[str], drop_policy: DropPolicy) -> None:
    """Adapts a body to the rules where its meaning stays. Raises Unsupported, with the rule, for what the caller does not allow to drop.

    `host_unsupported` are all fields that the host lacks, hints included: they may go where their value is neutral.
    """
    if dialect not in (_OPENAI_CHAT, _OPENAI_COMPLETIONS):
        return
    unknown = host_unsupported & body.keys()
    if unknown:
        neutral_values = _NEUTRAL_VALUES if dialect == _OPENAI_CHAT else _NEUTRAL_VALUES_IN_COMPLETIONS
        drop_policy.drop_neutral({field: neutral_values.get(field, ()) for field in unknown})
    if rules.max_stops is not None and body.has_value("stop"):
        _enforce_max_stops(body, rules.max_stops, drop_policy)
    for field, (minimum, maximum) in rules.ranges.items():
        value = body.value(field) if field in body else None
        if value is not None and not minimum <= value <= maximum:
            drop_policy.drop_or_refuse(field, f"it accepts {minimum:g} to {maximum:g}, not {value:g}.")
    for field, values in rules.allowed_values.items():
        if body.has_value(field) and (value := body.value(field)) not in values:
            drop_policy.drop_missing(field, f"it accepts {', '.join(map(str, values))}, not {value!s:.80}.")
    for first, second in rules.exclusive_fields:
        if body.has_value(first) and body.has_value(second):
            drop_policy.drop_or_refuse(first, f"it does not accept it together with `{second}`.")
    if dialect == _OPENAI_CHAT:
        if "tools" in host_unsupported:
            drop_tool_calls(body, drop_policy)
        _enforce_chat_rules(body, rules, drop_policy)


def _enforce_max_stops(body: Body, max_stops: int, drop_policy: DropPolicy) -> None:
    stops = body.value("stop")
    if isinstance(stops, list) and len(stops) > max_stops:  # pyright: ignore[reportUnknownArgumentType]
        drop_policy.drop_or_refuse("stop", f"it accepts at most {max_stops} stop sequences, not {len(stops)}.")  # pyright: ignore[reportUnknownArgumentType]


def _enforce_chat_rules(body: Body, rules: HostRules, drop_policy: DropPolicy) -> None:
    if rules.max_tokens is not None:
        _rename_max_tokens(body, rules.max_tokens)
    if not rules.developer_role:
        rename_developer_role(body)
    if rules.reasoning_field is not None:
        rename_reasoning(body, rules.reasoning_field)
    if rules.assistant_fields is not None and not rules.ignores_unknown_members:
        drop_foreign_members(body, drop_policy, rules.assistant_fields, keeps_marks="part" in rules.cache_marks)
    if rules.assistant_fields is not None:
        drop_assistant_fields(body, rules.assistant_fields, drop_policy)
    if rules.functions_only:
        write_custom_calls_as_functions(body)
    if rules.text_results:
        flatten_tool_results(body)
    if rules.text_roles:
        join_text_content(body, rules.text_roles, drop_policy)
    if rules.unsupported_parts:
        drop_unsupported_parts(body, {f'"{kind}"'.encode(): why for kind, why in rules.unsupported_parts.items()}, drop_policy)
    if body.has_value("tools"):
        add_missing_parameters(body)
        name_pattern = None if rules.tool_names is None else re.compile(rules.tool_names)
        enforce_tool_rules(body, drop_policy, rules.max_tools, name_pattern, rules.tool_choices, functions_only=rules.functions_only)


def _rename_max_tokens(body: Body, target_name: str) -> None:
    """Renames the field with the most tokens. Where both are set, `max_completion_tokens` wins, as at OpenAI."""
    newer, older = body.pop("max_completion_tokens", NULL), body.pop("max_tokens", NULL)
    if newer != NULL or older != NULL:
        body[target_name] = older if newer == NULL else newer
