"""DeepSeek's thinking mode: on by default, and incompatible with forced tool calls and sampling parameters.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, read 2026-11; recordings deepseek/05, 11, 23.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, merge_object
from providers.drop_policy import DropPolicy
from providers.fields import NeutralValues

# An older model name, for which thinking is off by default (recordings deepseek/01, deepseek/06).
_NON_THINKING_MODEL = "deepseek-chat"
# Accepted silently and without effect.
_IGNORED_WHILE_THINKING: Mapping[str, NeutralValues] = {
    "openai_chat": {"temperature": (1,), "presence_penalty": (0,), "frequency_penalty": (0,)},
    "openai_responses": {"temperature": (1,)},
    "anthropic_messages": {"temperature": (1,)},
}
_FORCED_TOOL_CHOICES = ("required", "any", "tool", "function", "custom")
_REMEDY = "Turn thinking off to use it (`reasoning_effort: none`, `thinking: {type: disabled}`)."
_ASSISTANT = Raw(b'"assistant"')
_EMPTY_STRING = Raw(b'""')
_NO_TOOLS = Raw(b"[]")

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def adapt_thinking(body: Body, dialect: str, drop_policy: DropPolicy) -> bool:
    """Adapts the body to thinking mode; returns whether thinking may be on for this request.

    A forced tool call turns thinking off where the caller has not requested thinking, and is refused where they have.
    Source: deepseek-ai/DeepSeek-V3#1376 (400 for "required" and for named functions), read 2026-11.
    """
    if dialect not in _IGNORED_WHILE_THINKING:
        return False
    is_thinking = _requested_thinking(body, dialect)
    if is_thinking is None and body.value("model") == _NON_THINKING_MODEL:
        is_thinking = False
    if is_thinking is not False and _forces_tool_call(body.value("tool_choice")):
        if is_thinking:
            drop_policy.drop_or_refuse("tool_choice", f"while thinking it supports only auto and none. {_REMEDY}")
        else:
            is_thinking = False
            _disable_thinking(body, dialect)
    elif is_thinking is False and dialect == "openai_chat":
        _translate_effort_none(body)
    if is_thinking is False:
        return False
    neutral_values = _IGNORED_WHILE_THINKING[dialect]
    drop_policy.drop_neutral(neutral_values)
    for field in [field for field in neutral_values if body.has_value(field)]:
        drop_policy.drop_missing(field, f"it ignores it while thinking. {_REMEDY}")
    if dialect == "openai_chat":
        _add_missing_reasoning(body)
    return True


def _requested_thinking(body: Body, dialect: str) -> bool | None:
    """Whether the caller turns thinking on or off; None: neither."""
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
    """Writes OpenAI's `reasoning_effort: none`, which DeepSeek's chat does not have, as `thinking: {type: disabled}`."""
    if body.value("reasoning_effort") == "none":
        del body["reasoning_effort"]
        body["thinking"] = {"type": "disabled"}


def _add_missing_reasoning(body: Body) -> None:
    """Adds an empty `reasoning_content` to earlier responses without any, such as those of another model: all of them in a request with
    tools, else those with calls.

    Without it DeepSeek answers 400 (https://api-docs.deepseek.com/guides/thinking_mode); an empty text is accepted:
    Oaklight/llm-rosetta#356, read 2026-11.
    """
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    has_tools = body.has_value("tools") and body["tools"] != _NO_TOOLS
    if (b'"assistant"' if has_tools else b'"tool_calls"') not in raw:
        return
    try:
        messages = _decode_messages(raw)
    except DECODE_ERRORS:
        return
    changed = False
    for message in messages:
        if message.get("role") == _ASSISTANT and (has_tools or message.get("tool_calls", NULL) != NULL):
            reasoning = [message.get(name, NULL) for name in ("reasoning_content", "reasoning")]
            if all(each == NULL for each in reasoning):
                message["reasoning_content"] = _EMPTY_STRING
                changed = True
    if changed:
        body["messages"] = messages
