"""Tools as most engines take them: functions of the caller's alone, and a choice among all that are sent."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.structured_output import Constraint

# Types of tools that are functions of the caller's, by dialect; Messages need not say one.
_FUNCTIONS: Mapping[str, tuple[bytes, ...]] = {
    "openai_chat": (b'"function"', b"null"),
    "openai_responses": (b'"function"',),
    "anthropic_messages": (b"null", b'"custom"'),
}

_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def adapt_functions(body: Body, unsupported_fields: UnsupportedFields) -> None:
    """Tools of a chat, and the choice among them, for an engine that has functions and the words auto, none, required and a name."""
    send_allowed_tools_only(body)
    if body.has_value("tools"):
        drop_unsupported_tools(body, "openai_chat", unsupported_fields)


def send_allowed_tools_only(body: Body) -> None:
    """`allowed_tools`, where an engine has no such choice: the same is said by sending those alone."""
    choice = body.value("tool_choice")
    if choice_kind(choice) != "allowed_tools" or not body.has_value("tools"):
        return
    allowed = choice.get("allowed_tools", choice)
    names = {_name(tool) for tool in allowed.get("tools", ())}
    body["tools"] = [tool for tool in body.value("tools") if _name(tool) in names]
    body["tool_choice"] = allowed.get("mode", "auto")


def drop_unsupported_tools(body: Body, dialect: str, unsupported_fields: UnsupportedFields) -> None:
    """Tools that a host runs, and those that take free text. Raises Unsupported."""
    functions = _FUNCTIONS.get(dialect)
    raw = bytes(as_raw(body["tools"]))
    if functions is None or (dialect == "openai_chat" and b'"custom"' not in raw):
        return
    try:
        tools = _tools(raw)
    except DECODE_ERRORS:
        return
    kept: list[dict[str, Raw]] = []
    for tool_index, tool in enumerate(tools):
        if bytes(tool.get("type", b"null")) in functions:
            kept.append(tool)
        else:
            unsupported_fields.drop_path_or_refuse(f"tools[{tool_index}]", "it calls functions of the caller's alone.")
    if len(kept) == len(tools):
        return
    body["tools"] = kept
    if not kept:
        for field in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(field, None)


def choice_kind(choice: Any) -> Any:
    return choice.get("type") if isinstance(choice, dict) else choice  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _name(tool: Any) -> Any:
    return tool.get("function", tool).get("name", tool.get("type"))


def check_strict_tools(unsupported_fields: UnsupportedFields, constraint: Constraint | None, *, trusted: bool) -> None:
    """`strict` of tools whose schemas are obeyed in part. Raises Unsupported."""
    for path, _ in () if constraint is None or trusted else constraint.strict_tools:
        if constraint is not None and path in constraint.uncovered_paths:
            unsupported_fields.drop_path_or_refuse(
                path.rpartition(".")[0] + ".strict", "of this schema it holds the arguments of a call to a part alone."
            )
