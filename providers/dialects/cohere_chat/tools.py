"""Tools of Cohere's chat, and which of them is to be called: any, none, or as the model finds right.

Source: https://docs.cohere.com/reference/chat and https://docs.cohere.com/v2/docs/tool-use-parameter-types, read 2026-11.
"""

from typing import Any

import msgspec

from providers.canonical.chat import ChatRequest, HostTool, Tool
from providers.dialect import DropPolicy

_TOOL_CHOICE_MODES = {"required": "REQUIRED", "named": "REQUIRED", "none": "NONE"}
_STRICT_RULE = "it holds the arguments of all tools to their schemas or of none, and only where each has a required parameter."


def write_tools(chat: ChatRequest, drop_policy: DropPolicy, *, constrained: bool) -> dict[str, Any]:
    """The fields that say it. A choice of one tool, or among some, is said by sending no others."""
    selected = _selected_tools(chat)
    if selected and constrained:
        drop_policy.drop_or_refuse("tools", "its response_format cannot be used together with tools.")
        return {}
    supported = [(index, tool) for index, tool in selected if _is_supported(tool, f"tools[{index}]", drop_policy)]
    tools = [tool for _, tool in supported if isinstance(tool, Tool)]
    choice = chat.tool_choice
    if not tools:
        if choice is not None and choice.mode in ("required", "named"):
            drop_policy.drop_or_refuse("tool_choice", "there is no tool that it could call.")
        return {}
    if chat.parallel_calls is False and (choice is None or choice.mode != "none"):
        drop_policy.drop_or_refuse("parallel_calls", "it cannot hold a model to one call.")
    fields: dict[str, Any] = {"tools": [_write_tool(tool) for tool in tools]}
    if choice is not None and choice.mode in _TOOL_CHOICE_MODES:
        fields["tool_choice"] = _TOOL_CHOICE_MODES[choice.mode]
    strict = [at for at, tool in supported if isinstance(tool, Tool) and tool.strict]
    if strict and all(_has_required_parameter(tool) for tool in tools):
        fields["strict_tools"] = True
    else:
        for at in strict:
            drop_policy.drop_or_refuse(f"tools[{at}].strict", _STRICT_RULE)
    return fields


def _selected_tools(chat: ChatRequest) -> list[tuple[int, Tool | HostTool]]:
    choice = chat.tool_choice
    allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
    if choice is not None and choice.mode == "named":
        allowed = frozenset({choice.name})
    numbered = enumerate(chat.tools)
    return [(index, tool) for index, tool in numbered if allowed is None or (isinstance(tool, Tool) and tool.name in allowed)]


def _is_supported(tool: Tool | HostTool, path: str, drop_policy: DropPolicy) -> bool:
    if isinstance(tool, HostTool):
        drop_policy.drop_or_refuse(path, f"`{tool.kind}` is a tool of another API's own, which only that knows.")
        return False
    if tool.custom:
        drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
        return False
    for key, value in tool.extra.items():
        drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")
    return True


def _write_tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _has_required_parameter(tool: Tool) -> bool:
    schema: Any = {} if tool.parameters is None else msgspec.json.decode(tool.parameters)
    return isinstance(schema, dict) and bool(schema.get("required"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
