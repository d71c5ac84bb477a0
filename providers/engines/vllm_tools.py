"""Tools as vLLM takes them: functions alone, at least one, and a choice among all of them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.engines.losses import Losses
from providers.guided import Constraint
from providers.rest import as_raw
from providers.wire import UNREADABLE, Body

# Types of tools that are functions of the caller's, by dialect; Messages need not say one.
_FUNCTIONS: Mapping[str, tuple[bytes, ...]] = {
    "openai_chat": (b'"function"',),
    "openai_responses": (b'"function"',),
    "anthropic_messages": (b"null", b'"custom"'),
}

_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def bend_tools(body: Body, dialect: str, losses: Losses, constraint: Constraint | None, *, strict: str | None, runs_tools: bool) -> None:
    """`strict`: why a free choice is not held to the schemas of strict tools; None: it is. `runs_tools`: those of the host are let through.

    Raises Unsupported.
    """
    if "tools" not in body and "tool_choice" not in body:
        return
    _choose_among_allowed(body)
    if dialect == "openai_chat" and _is_empty_list(body.get("tools")):
        del body["tools"]  # an empty list means none to OpenAI; vLLM answers it with 400 (seen on 0.32)
        if body.value("tool_choice") in ("auto", "none"):
            del body["tool_choice"]  # says nothing without tools; vLLM answers it with 400 there
    if not body.said("tools"):
        return
    if not runs_tools:
        _drop_foreign(body, dialect, losses)
    if strict is not None and constraint is not None and is_free(body.value("tool_choice")):
        for path, _ in constraint.tools:
            losses.part_with(path.rpartition(".")[0] + ".strict", strict)


def excludes(body: Body, constraint: Constraint, *, either: bool) -> bool:
    """Whether tools and what constrains the answer are in each other's way.

    `either`: the engine makes a grammar of both, by which an answer is a call or obeys, where one tool is strict and the choice is free.
    """
    if constraint.output is None or not body.value("tools"):
        return False
    choice = body.value("tool_choice")
    return _kind(choice) != "none" and not (either and constraint.tools and is_free(choice))


def give_up_tools(body: Body, field: str, may_drop: Callable[[str], bool], losses: Losses) -> bool:
    """Of tools and a constraint, the tools, where the caller lets them go; else whether it lets go of the constraint. Or Unsupported.

    Where the choice is free vLLM lets no call be made (vllm-project/vllm#39929), or, from 0.22 to 0.29 and beside a strict tool, forgets
    the constraint; where a call is demanded it forgets the constraint. Seen on 0.32; older ones' parser/abstract_parser.py, read 2026-11.
    """
    if not may_drop("tools") and (may_drop(field) or may_drop(field.partition(".")[0])):
        losses.dropped.append(field)
        return True
    why = f"beside tools of which none is `strict` (and before 0.32 beside any) it holds no answer to `{field}` and makes calls too."
    if not is_free(body.value("tool_choice")):
        why = f"where a call is demanded it forgets `{field}`."
    losses.part_with("tools", f"{why} (Or send `x-narthex-drop: {field}` to go without that.)")
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        body.pop(name, None)
    return False


def _choose_among_allowed(body: Body) -> None:
    """`allowed_tools`, which vLLM has not: the same is said by sending those alone."""
    choice = body.value("tool_choice")
    if _kind(choice) != "allowed_tools" or not body.said("tools"):
        return
    allowed = choice.get("allowed_tools", choice)
    names = {_name(tool) for tool in allowed.get("tools", ())}
    body["tools"] = [tool for tool in body.value("tools") if _name(tool) in names]
    body["tool_choice"] = allowed.get("mode", "auto")


def _name(tool: Any) -> Any:
    return tool.get("function", tool).get("name", tool.get("type"))


def _drop_foreign(body: Body, dialect: str, losses: Losses) -> None:
    """Tools that a host runs, and those that take free text: vLLM's Responses pass over them in silence (seen on 0.32), unless it has a

    server of tools (--tool-server), which it asks for gpt-oss alone.
    """
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
        kind = bytes(tool.get("type", b"null"))
        if kind in functions:
            kept.append(tool)
        else:
            losses.part_with(f"tools[{at}]", "it calls functions of the caller's alone.")
    if len(kept) == len(tools):
        return
    body["tools"] = kept
    if not kept:
        for field in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(field, None)


def is_free(choice: Any) -> bool:
    """Whether the model may call a tool, and need not."""
    return _kind(choice) in (None, "auto")


def _kind(choice: Any) -> Any:
    return choice.get("type") if isinstance(choice, dict) else choice  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _is_empty_list(value: Any) -> bool:
    if not isinstance(value, Raw | list):
        return False
    raw = bytes(as_raw(value))  # pyright: ignore[reportUnknownArgumentType]
    return raw[:1] == b"[" and not raw[1:-1].strip()
