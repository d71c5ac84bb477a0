"""Tools of a chat, adapted to most engines: functions that the caller runs, and a choice among all that are sent."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.drop_policy import DropPolicy
from providers.host_tools import is_offered
from providers.structured_output import Constraint

# The types of tools that are functions of the caller's, by dialect; in Messages the type may be missing.
_FUNCTION_TYPES: Mapping[str, tuple[bytes, ...]] = {
    "openai_chat": (b'"function"', b"null"),
    "openai_responses": (b'"function"',),
    "anthropic_messages": (b"null", b'"custom"'),
}

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def adapt_functions(body: Body, drop_policy: DropPolicy) -> None:
    """Adapts a chat's tools to an engine with functions only, and the choices auto, none, required and a name."""
    send_allowed_tools_only(body)
    if body.has_value("tools"):
        drop_unsupported_tools(body, "openai_chat", drop_policy)


def send_allowed_tools_only(body: Body) -> None:
    """Replaces the choice `allowed_tools`, for engines without it: only those tools are sent, which means the same."""
    choice = body.value("tool_choice")
    if choice_kind(choice) != "allowed_tools" or not body.has_value("tools"):
        return
    allowed = choice.get("allowed_tools", choice)
    names = {_tool_name(tool) for tool in allowed.get("tools", ())}
    body["tools"] = [tool for tool in body.value("tools") if _tool_name(tool) in names]
    body["tool_choice"] = allowed.get("mode", "auto")


def drop_unsupported_tools(body: Body, dialect: str, drop_policy: DropPolicy) -> None:
    """Drops or refuses tools that the host would run, and those that take free text. Raises Unsupported.

    A search beside functions is an offer, which is dropped as a hint (see mark_offered_search()).
    """
    function_types = _FUNCTION_TYPES.get(dialect)
    raw = bytes(as_raw(body["tools"]))
    if function_types is None or (dialect == "openai_chat" and b'"custom"' not in raw):
        return
    try:
        tools = _decode_tools(raw)
    except DECODE_ERRORS:
        return
    kept: list[dict[str, Raw]] = []
    has_functions = any(bytes(tool.get("type", b"null")) in function_types for tool in tools)
    for tool_index, tool in enumerate(tools):
        if bytes(tool.get("type", b"null")) in function_types:
            kept.append(tool)
        elif has_functions and is_offered(bytes(tool["type"]).decode().strip('"')):
            drop_policy.report_dropped(f"tools[{tool_index}]")
        else:
            drop_policy.drop_path_or_refuse(f"tools[{tool_index}]", "it supports only functions that the caller runs.")
    if len(kept) == len(tools):
        return
    body["tools"] = kept
    if not kept:
        _remove_tools(body)


def drop_tools_or_constraint(body: Body, constraint: Constraint | None, drop_policy: DropPolicy) -> Constraint | None:
    """Refuses tools beside a constraint on the text: in these engines it holds for all of the response, calls included.

    Where the caller allows that one of the two is dropped, that one is; returns what is left of the constraint. SGLang answers 400 where a
    call is demanded, and otherwise ignores the tools; LMDeploy implements demanded calls by a response_format of its own. Sources:
    docs/sources.md#sglang and #lmdeploy; SGLang 0.5.23, entrypoints/openai/protocol.py, read 2026-11.
    """
    if constraint is None or constraint.output is None or not body.value("tools"):
        return constraint
    choice = body.value("tool_choice")
    if choice == "none" or drop_policy.accepts("tools"):
        return constraint
    field = constraint.field
    if not drop_policy.may_drop("tools") and drop_policy.may_drop(field):
        drop_policy.report_dropped(field)
        return replace(constraint, output=None)
    demand = "" if choice in (None, "auto") else f" (and `tool_choice` demands {'one' if choice == 'required' else 'a certain one'})"
    drop_policy.drop_or_refuse("tools", f"it makes no calls{demand} in a response that `{field}` constrains.")
    _remove_tools(body)
    return replace(constraint, strict_tools=())


def check_strict_tools(drop_policy: DropPolicy, constraint: Constraint | None, *, trusted: bool) -> None:
    """Drops or refuses `strict` of tools whose schemas the engine enforces in part. Raises Unsupported."""
    for path, _ in () if constraint is None or trusted else constraint.strict_tools:
        if constraint is not None and path in constraint.uncovered_paths:
            drop_policy.drop_path_or_refuse(
                path.rpartition(".")[0] + ".strict", "it enforces only a part of this schema on the arguments of a call."
            )


def choice_kind(choice: Any) -> Any:
    """The kind of a `tool_choice`: the string itself, or the type of an object."""
    return choice.get("type") if isinstance(choice, dict) else choice  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _tool_name(tool: Any) -> Any:
    return tool.get("function", tool).get("name", tool.get("type"))


def _remove_tools(body: Body) -> None:
    for field in ("tools", "tool_choice", "parallel_tool_calls"):
        body.pop(field, None)
