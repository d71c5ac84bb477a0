"""Tools as most engines take them: functions of the caller's alone, and a choice among all that are sent."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.guided import Constraint
from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import UNREADABLE, Body

# Types of tools that are functions of the caller's, by dialect; Messages need not say one.
_FUNCTIONS: Mapping[str, tuple[bytes, ...]] = {
    "openai_chat": (b'"function"', b"null"),
    "openai_responses": (b'"function"',),
    "anthropic_messages": (b"null", b'"custom"'),
}

_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def bend_functions(body: Body, losses: Losses) -> None:
    """Tools of a chat, and the choice among them, for an engine that has functions and the words auto, none, required and a name."""
    choose_among_allowed(body)
    if body.said("tools"):
        drop_foreign(body, "openai_chat", losses)


def choose_among_allowed(body: Body) -> None:
    """`allowed_tools`, where an engine has no such choice: the same is said by sending those alone."""
    choice = body.value("tool_choice")
    if kind_of(choice) != "allowed_tools" or not body.said("tools"):
        return
    allowed = choice.get("allowed_tools", choice)
    names = {_name(tool) for tool in allowed.get("tools", ())}
    body["tools"] = [tool for tool in body.value("tools") if _name(tool) in names]
    body["tool_choice"] = allowed.get("mode", "auto")


def drop_foreign(body: Body, dialect: str, losses: Losses) -> None:
    """Tools that a host runs, and those that take free text. Raises Unsupported."""
    functions = _FUNCTIONS.get(dialect)
    raw = bytes(as_raw(body["tools"]))
    if functions is None or (dialect == "openai_chat" and b'"custom"' not in raw):
        return
    try:
        tools = _tools(raw)
    except UNREADABLE:
        return
    kept: list[dict[str, Raw]] = []
    for at, tool in enumerate(tools):
        if bytes(tool.get("type", b"null")) in functions:
            kept.append(tool)
        else:
            losses.part_with(f"tools[{at}]", "it calls functions of the caller's alone.")
    if len(kept) == len(tools):
        return
    body["tools"] = kept
    if not kept:
        for field in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(field, None)


def kind_of(choice: Any) -> Any:
    return choice.get("type") if isinstance(choice, dict) else choice  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _name(tool: Any) -> Any:
    return tool.get("function", tool).get("name", tool.get("type"))


def bend_strict(losses: Losses, constraint: Constraint | None, *, vouched: bool) -> None:
    """`strict` of tools whose schemas are obeyed in part. Raises Unsupported."""
    for path, _ in () if constraint is None or vouched else constraint.tools:
        if constraint is not None and path in constraint.loose:
            losses.part_with(path.rpartition(".")[0] + ".strict", "of this schema it holds the arguments of a call to a part alone.")
