"""DeepSeek's thinking mode: on unless it is said otherwise, and what cannot be asked for while it is.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, read 2026-11; recorded: deepseek/05, 11, 23.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.adapters.unsupported_fields import NeutralValues, UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, merge_object

# An older name of its models, by which they do not think unless they are told to (recorded: deepseek/01, deepseek/06).
_NON_THINKING_MODEL = "deepseek-chat"
# Taken without a word, and of no effect.
_IGNORED_WHILE_THINKING: Mapping[str, NeutralValues] = {
    "openai_chat": {"temperature": (1,), "presence_penalty": (0,), "frequency_penalty": (0,)},
    "openai_responses": {"temperature": (1,)},
    "anthropic_messages": {"temperature": (1,)},
}
_FORCED_TOOL_CHOICES = ("required", "any", "tool", "function", "custom")
_REMEDY = "It can be honoured without thinking (`reasoning_effort: none`, `thinking: {type: disabled}`)."
_ASSISTANT = Raw(b'"assistant"')
_EMPTY_STRING = Raw(b'""')

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def adapt_thinking(body: Body, dialect: str, unsupported_fields: UnsupportedFields) -> bool:
    """Whether it may think, in the answer to this.

    A choice of tool that thinking does not allow turns it off where the caller has not asked for it, and is refused where it has.
    deepseek-ai/DeepSeek-V3#1376: 400 for "required" and for named functions; read 2026-11.
    """
    if dialect not in _IGNORED_WHILE_THINKING:
        return False
    is_thinking = _requested_thinking(body, dialect)
    if is_thinking is None and body.value("model") == _NON_THINKING_MODEL:
        is_thinking = False
    if is_thinking is not False and _forces_tool_call(body.value("tool_choice")):
        if is_thinking:
            unsupported_fields.drop_or_refuse("tool_choice", f"while it thinks it takes auto and none alone. {_REMEDY}")
        else:
            is_thinking = False
            _disable_thinking(body, dialect)
    elif is_thinking is False and dialect == "openai_chat":
        _translate_effort_none(body)
    if is_thinking is False:
        return False
    neutral_values = _IGNORED_WHILE_THINKING[dialect]
    unsupported_fields.drop_neutral(neutral_values)
    for field in [field for field in neutral_values if body.has_value(field)]:
        unsupported_fields.drop_or_refuse(field, f"it does nothing about it while it thinks. {_REMEDY}")
    if dialect == "openai_chat":
        _add_missing_reasoning(body)
    return True


def _requested_thinking(body: Body, dialect: str) -> bool | None:
    """Whether the caller wants it to think; None: the caller has not said."""
    if dialect == "openai_responses":
        return _enables_thinking(_object_field(body, "reasoning").get("effort"))
    thinking_type = _object_field(body, "thinking").get("type")
    if thinking_type is not None:
        return thinking_type != "disabled"
    return _enables_thinking(
        body.value("reasoning_effort") if dialect == "openai_chat" else _object_field(body, "output_config").get("effort")
    )


def _enables_thinking(effort: Any) -> bool | None:
    return None if effort is None else effort != "none"


def _object_field(body: Body, key: str) -> dict[str, Any]:
    value: Any = body.value(key)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _forces_tool_call(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return choice in _FORCED_TOOL_CHOICES
    fields = cast(dict[str, Any], choice)
    if fields.get("type") == "allowed_tools":
        return fields.get("allowed_tools", fields).get("mode") in _FORCED_TOOL_CHOICES
    return fields.get("type") in _FORCED_TOOL_CHOICES


def _disable_thinking(body: Body, dialect: str) -> None:
    if dialect == "openai_responses":
        body["reasoning"] = merge_object(body.get("reasoning"), {"effort": "none"})
    else:
        body["thinking"] = {"type": "disabled"}


def _translate_effort_none(body: Body) -> None:
    """`reasoning_effort: none` is OpenAI's word for it, which its chat has not."""
    if body.value("reasoning_effort") == "none":
        del body["reasoning_effort"]
        body["thinking"] = {"type": "disabled"}


def _add_missing_reasoning(body: Body) -> None:
    """What it thought before a call must come with the call, or it answers 400; of calls that another model made, nothing is known.

    An empty text is taken for that: Oaklight/llm-rosetta#356, read 2026-11.
    """
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if b'"tool_calls"' not in raw:
        return
    try:
        messages = _decode_messages(raw)
    except DECODE_ERRORS:
        return
    changed = False
    for message in messages:
        if message.get("role") == _ASSISTANT and message.get("tool_calls", NULL) != NULL:
            reasoning = [message.get(name, NULL) for name in ("reasoning_content", "reasoning")]
            if all(each == NULL for each in reasoning):
                message["reasoning_content"] = _EMPTY_STRING
                changed = True
    if changed:
        body["messages"] = messages
