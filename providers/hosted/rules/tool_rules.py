"""Rules of hosts for tools: how many, their names, and the tool choice."""

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.adapters.tools import adapt_functions, choice_kind
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.drop_policy import DropPolicy


class _Function(Struct):
    name: str | None = None
    parameters: Raw = NULL


class _Tool(Struct):
    function: _Function | None = None


_decode_tools = msgspec.json.Decoder(list[_Tool]).decode
_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_RESULT_ROLES = (Raw(b'"tool"'), Raw(b'"function"'))
_NO_CALLS = (NULL, Raw(b"[]"))
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")


def enforce_tool_rules(
    body: Body,
    drop_policy: DropPolicy,
    max_tools: int | None,
    name_pattern: re.Pattern[str] | None,
    allowed_choices: frozenset[str] | None,
    *,
    functions_only: bool,
) -> None:
    """Adapts tools and the choice among them to the rules. Where tools are dropped, tool_choice and parallel_tool_calls go too.

    `allowed_choices` are out of auto, none, required, named.
    """
    if functions_only:
        adapt_functions(body, drop_policy)
    if allowed_choices is not None:
        _enforce_tool_choice(body, allowed_choices, drop_policy)
    if (max_tools is None and name_pattern is None) or not body.has_value("tools"):
        return
    try:
        tools = _decode_tools(as_raw(body["tools"]))
    except DECODE_ERRORS:
        return
    if max_tools is not None and len(tools) > max_tools:
        drop_policy.drop_or_refuse("tools", f"it accepts at most {max_tools} tools, not {len(tools)}.")
        if "tools" not in body:
            for field in _TOOL_FIELDS:
                body.pop(field, None)
        return
    invalid_name = None if name_pattern is None else _find_invalid_name(tools, name_pattern)
    if invalid_name is not None and name_pattern is not None:
        index, name = invalid_name
        drop_policy.drop_path_or_refuse(
            f"tools[{index}].function.name", f"{name!r:.100} is not a valid tool name there: names match {name_pattern.pattern}."
        )
        for field in _TOOL_FIELDS:
            body.pop(field, None)


def add_missing_parameters(body: Body) -> None:
    """Adds the empty schema to functions without one: OpenAI takes them without, and others do not.

    xAI answers 400 (dirac-run/dirac#58), Mistral 422, Alibaba 400 "parameters must be valid JSON" to null
    (Vizards/deepseek-v4-for-copilot#280). It means the same everywhere.
    """
    try:
        if not any([tool.function is not None and tool.function.parameters == NULL for tool in _decode_tools(as_raw(body["tools"]))]):
            return
        tools: list[dict[str, Any]] = _decode_objects(as_raw(body["tools"]))
        for tool in tools:
            function: Any = msgspec.json.decode(tool.get("function", NULL))
            if isinstance(function, dict) and function.get("parameters") is None:  # pyright: ignore[reportUnknownMemberType]
                tool["function"] = {**function, "parameters": _NO_PARAMETERS}
    except DECODE_ERRORS:
        return
    body["tools"] = tools


def drop_tool_calls(body: Body, drop_policy: DropPolicy) -> None:
    """Refuses or drops the tool calls and results of a conversation, which a host without tools would ignore silently."""
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if not any(marker in raw for marker in (b'"tool_calls"', b'"tool"', b'"function"')):
        return
    try:
        messages = _decode_messages(raw)
    except DECODE_ERRORS:
        return
    kept: list[dict[str, Raw]] = []
    for index, message in enumerate(messages):
        if message.get("role") in _RESULT_ROLES:
            drop_policy.drop_path_or_refuse(f"messages[{index}]", "it does not support tools or their results.")
            continue
        if message.pop("tool_calls", NULL) not in _NO_CALLS:
            drop_policy.drop_path_or_refuse(f"messages[{index}].tool_calls", "it does not support tools.")
            if message.get("content", NULL) == NULL:
                continue
        kept.append(message)
    body["messages"] = kept


def _find_invalid_name(tools: list[_Tool], name_pattern: re.Pattern[str]) -> tuple[int, str] | None:
    """The index and name of the first tool whose name does not match."""
    named = ((index, tool.function.name) for index, tool in enumerate(tools) if tool.function is not None)
    return next(((index, name) for index, name in named if name is not None and name_pattern.fullmatch(name) is None), None)


def _enforce_tool_choice(body: Body, allowed_choices: frozenset[str], drop_policy: DropPolicy) -> None:
    if not body.has_value("tool_choice"):
        return
    choice: Any = body.value("tool_choice")
    mode = "named" if choice_kind(choice) == "function" else choice_kind(choice)
    if mode in allowed_choices:
        return
    if mode == "none":  # sending no tools means the same
        for field in _TOOL_FIELDS:
            body.pop(field, None)
        return
    drop_policy.drop_or_refuse("tool_choice", f"it accepts {', '.join(sorted(allowed_choices))}, not {mode!s:.40}.")
