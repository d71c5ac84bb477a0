"""DeepSeek's thinking mode: on unless it is said otherwise, and what cannot be asked for while it is.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, read 2026-11; recorded: deepseek/05, 11, 23.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.losses import Idle, Losses
from providers.rest import as_raw
from providers.wire import NULL, UNREADABLE, Body, merged

# An older name of its models, by which they do not think unless they are told to (recorded: deepseek/01, deepseek/06).
_QUIET = "deepseek-chat"
# Taken without a word, and of no effect.
_OF_NO_EFFECT: Mapping[str, Idle] = {
    "openai_chat": {"temperature": (1,), "presence_penalty": (0,), "frequency_penalty": (0,)},
    "openai_responses": {"temperature": (1,)},
    "anthropic_messages": {"temperature": (1,)},
}
_FORCING = ("required", "any", "tool", "function", "custom")
_WAY_OUT = "It can be honoured without thinking (`reasoning_effort: none`, `thinking: {type: disabled}`)."
_ASSISTANT = Raw(b'"assistant"')
_NOTHING = Raw(b'""')

_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def settle_thinking(body: Body, dialect: str, losses: Losses) -> bool:
    """Whether it may think, in the answer to this.

    A choice of tool that thinking does not allow turns it off where the caller has not asked for it, and is refused where it has.
    deepseek-ai/DeepSeek-V3#1376: 400 for "required" and for named functions; read 2026-11.
    """
    if dialect not in _OF_NO_EFFECT:
        return False
    thinks = _said(body, dialect)
    if thinks is None and body.value("model") == _QUIET:
        thinks = False
    if thinks is not False and _forces(body.value("tool_choice")):
        if thinks:
            losses.without("tool_choice", f"while it thinks it takes auto and none alone. {_WAY_OUT}")
        else:
            thinks = False
            _turn_off(body, dialect)
    elif thinks is False and dialect == "openai_chat":
        _turn_off_as_said(body)
    if thinks is False:
        return False
    idle = _OF_NO_EFFECT[dialect]
    losses.leave_out(idle)
    for field in [field for field in idle if body.said(field)]:
        losses.without(field, f"it does nothing about it while it thinks. {_WAY_OUT}")
    if dialect == "openai_chat":
        _give_thoughts_back(body)
    return True


def _said(body: Body, dialect: str) -> bool | None:
    """Whether the caller wants it to think; None: the caller has not said."""
    if dialect == "openai_responses":
        return _effort(_object(body, "reasoning").get("effort"))
    mode = _object(body, "thinking").get("type")
    if mode is not None:
        return mode != "disabled"
    return _effort(body.value("reasoning_effort") if dialect == "openai_chat" else _object(body, "output_config").get("effort"))


def _effort(said: Any) -> bool | None:
    return None if said is None else said != "none"


def _object(body: Body, key: str) -> dict[str, Any]:
    said: Any = body.value(key)
    return cast(dict[str, Any], said) if isinstance(said, dict) else {}


def _forces(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return choice in _FORCING
    told = cast(dict[str, Any], choice)
    if told.get("type") == "allowed_tools":
        return told.get("allowed_tools", told).get("mode") in _FORCING
    return told.get("type") in _FORCING


def _turn_off(body: Body, dialect: str) -> None:
    if dialect == "openai_responses":
        body["reasoning"] = merged(body.get("reasoning"), {"effort": "none"})
    else:
        body["thinking"] = {"type": "disabled"}


def _turn_off_as_said(body: Body) -> None:
    """`reasoning_effort: none` is OpenAI's word for it, which its chat has not."""
    if body.value("reasoning_effort") == "none":
        del body["reasoning_effort"]
        body["thinking"] = {"type": "disabled"}


def _give_thoughts_back(body: Body) -> None:
    """What it thought before a call must come with the call, or it answers 400; of calls that another model made, nothing is known.

    An empty text is taken for that: Oaklight/llm-rosetta#356, read 2026-11.
    """
    raw = bytes(as_raw(body["messages"])) if body.said("messages") else b""
    if b'"tool_calls"' not in raw:
        return
    try:
        messages = _messages(raw)
    except UNREADABLE:
        return
    changed = False
    for message in messages:
        if message.get("role") == _ASSISTANT and message.get("tool_calls", NULL) != NULL:
            thoughts = [message.get(name, NULL) for name in ("reasoning_content", "reasoning")]
            if all(each == NULL for each in thoughts):
                message["reasoning_content"] = _NOTHING
                changed = True
    if changed:
        body["messages"] = messages
