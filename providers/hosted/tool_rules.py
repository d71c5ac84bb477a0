"""The rules of hosts for tools: how many, by which names, chosen how."""

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.losses import Losses
from providers.rest import as_raw
from providers.tools import bend_functions, kind_of
from providers.wire import NULL, UNREADABLE, Body


class _Named(Struct):
    name: str | None = None


class _Tool(Struct):
    function: _Named | None = None


_tools = msgspec.json.Decoder(list[_Tool]).decode
_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_RESULTS = (Raw(b'"tool"'), Raw(b'"function"'))
_NO_CALLS = (NULL, Raw(b"[]"))
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")


def hold_tools(
    body: Body,
    losses: Losses,
    most: int | None,
    names: re.Pattern[str] | None,
    choices: frozenset[str] | None,
    *,
    functions_only: bool,
) -> None:
    """`choices`: of auto, none, required, named. Without its tools, an ask goes without what is said of them."""
    if functions_only:
        bend_functions(body, losses)
    if choices is not None:
        _hold_choice(body, choices, losses)
    if (most is None and names is None) or not body.said("tools"):
        return
    try:
        tools = _tools(as_raw(body["tools"]))
    except UNREADABLE:
        return
    if most is not None and len(tools) > most:
        losses.without("tools", f"it takes at most {most} tools, and these are {len(tools)}.")
        if "tools" not in body:
            for field in _OF_TOOLS:
                body.pop(field, None)
        return
    strange = None if names is None else _strange(tools, names)
    if strange is not None and names is not None:
        at, name = strange
        losses.part_with(f"tools[{at}].function.name", f"{name!r:.100} cannot be the name of a tool there: names match {names.pattern}.")
        for field in _OF_TOOLS:
            body.pop(field, None)


def leave_out_calls(body: Body, losses: Losses) -> None:
    """Of a conversation for a host without tools: calls that were made, and their results, which it would pass over in silence."""
    raw = bytes(as_raw(body["messages"])) if body.said("messages") else b""
    if not any(word in raw for word in (b'"tool_calls"', b'"tool"', b'"function"')):
        return
    try:
        messages = _messages(raw)
    except UNREADABLE:
        return
    kept: list[dict[str, Raw]] = []
    for at, message in enumerate(messages):
        if message.get("role") in _RESULTS:
            losses.part_with(f"messages[{at}]", "it calls no tools, and reads no results of any.")
            continue
        if message.pop("tool_calls", NULL) not in _NO_CALLS:
            losses.part_with(f"messages[{at}].tool_calls", "it calls no tools.")
            if message.get("content", NULL) == NULL:
                continue
        kept.append(message)
    body["messages"] = kept


def _strange(tools: list[_Tool], names: re.Pattern[str]) -> tuple[int, str] | None:
    told = ((at, tool.function.name) for at, tool in enumerate(tools) if tool.function is not None)
    return next(((at, name) for at, name in told if name is not None and names.fullmatch(name) is None), None)


def _hold_choice(body: Body, choices: frozenset[str], losses: Losses) -> None:
    if not body.said("tool_choice"):
        return
    choice: Any = body.value("tool_choice")
    word = "named" if kind_of(choice) == "function" else kind_of(choice)
    if word in choices:
        return
    if word == "none":  # the same is said by sending no tools
        for field in _OF_TOOLS:
            body.pop(field, None)
        return
    losses.without("tool_choice", f"it takes {', '.join(sorted(choices))}, and this is {word!s:.40}.")
