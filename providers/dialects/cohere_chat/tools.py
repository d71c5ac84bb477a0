"""Tools of Cohere's chat, and the choice among them.

Source: https://docs.cohere.com/reference/chat and https://docs.cohere.com/v2/docs/tool-use-parameter-types, read 2026-11.
"""

from typing import Any

import msgspec

from providers.canonical.chat import ChatRequest, HostTool, Tool
from providers.drop_policy import DropPolicy
from providers.host_tools import leave_out_host_tool
from providers.unsupported import drop_part_fields

_TOOL_CHOICE_MODES = {"required": "REQUIRED", "named": "REQUIRED", "none": "NONE"}
_STRICT_RULE = "it enforces the schemas of all tools or of none, and only if each has a required parameter."


def write_tools(chat: ChatRequest, drop_policy: DropPolicy, *, constrained: bool) -> dict[str, Any]:
    """The fields of tools and their choice. To choose one tool, or among some, only those are sent."""
    selected = _selected_tools(chat)
    if selected and constrained:
        drop_policy.drop_or_refuse("tools", "its response_format cannot be used together with tools.")
        return {}
    supported = [(index, tool) for index, tool in selected if _is_supported(tool, f"tools[{index}]", drop_policy)]
    tools = [tool for _, tool in supported if isinstance(tool, Tool)]
    choice = chat.tool_choice
    if not tools:
        if choice is not None and choice.mode in ("required", "named"):
            drop_policy.drop_or_refuse("tool_choice", "there is no tool to call.")
        return {}
    if chat.parallel_calls is False and (choice is None or choice.mode != "none"):
        drop_policy.drop_or_refuse("parallel_calls", "it cannot limit a model to one call.")
    fields: dict[str, Any] = {"tools": [_write_tool(tool) for tool in tools]}
    if choice is not None and choice.mode in _TOOL_CHOICE_MODES:
        fields["tool_choice"] = _TOOL_CHOICE_MODES[choice.mode]
    strict_indexes = [index for index, tool in supported if isinstance(tool, Tool) and tool.strict]
    if strict_indexes and all(_has_required_parameter(tool) for tool in tools):
        fields["strict_tools"] = True
    else:
        for index in strict_indexes:
            drop_policy.drop_or_refuse(f"tools[{index}].strict", _STRICT_RULE)
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
        leave_out_host_tool(tool, path, f"only another API has the tool `{tool.kind}`, which its host runs itself.", drop_policy)
        return False
    if tool.custom:
        drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
        return False
    drop_part_fields(tool.extra, path, drop_policy)
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
