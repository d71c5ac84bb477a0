"""Tools of Cohere's chat, and which of them is to be called: any, none, or as the model finds right.

Source: https://docs.cohere.com/reference/chat and https://docs.cohere.com/v2/docs/tool-use-parameter-types, read 2026-11.
"""

from typing import Any

import msgspec

from providers.chat import ChatRequest, HostTool, Tool
from providers.dialect import Concessions

_CHOICES = {"required": "REQUIRED", "named": "REQUIRED", "none": "NONE"}
_HOLDABLE = "it holds the arguments of all tools to their schemas or of none, and only where each has a required parameter."


def write_tools(chat: ChatRequest, concessions: Concessions, *, constrained: bool) -> dict[str, Any]:
    """The fields that say it. A choice of one tool, or among some, is said by sending no others."""
    wanted = _wanted(chat)
    if wanted and constrained:
        concessions.without("tools", "its response_format cannot be used together with tools.")
        return {}
    told = [(at, tool) for at, tool in wanted if _can_say(tool, f"tools[{at}]", concessions)]
    tools = [tool for _, tool in told if isinstance(tool, Tool)]
    choice = chat.tool_choice
    if not tools:
        if choice is not None and choice.mode in ("required", "named"):
            concessions.without("tool_choice", "there is no tool that it could call.")
        return {}
    if chat.parallel_calls is False and (choice is None or choice.mode != "none"):
        concessions.without("parallel_calls", "it cannot hold a model to one call.")
    fields: dict[str, Any] = {"tools": [_write(tool) for tool in tools]}
    if choice is not None and choice.mode in _CHOICES:
        fields["tool_choice"] = _CHOICES[choice.mode]
    strict = [at for at, tool in told if isinstance(tool, Tool) and tool.strict]
    if strict and all(_has_required(tool) for tool in tools):
        fields["strict_tools"] = True
    else:
        for at in strict:
            concessions.without(f"tools[{at}].strict", _HOLDABLE)
    return fields


def _wanted(chat: ChatRequest) -> list[tuple[int, Tool | HostTool]]:
    choice = chat.tool_choice
    allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
    if choice is not None and choice.mode == "named":
        allowed = frozenset({choice.name})
    named = enumerate(chat.tools)
    return [(at, tool) for at, tool in named if allowed is None or (isinstance(tool, Tool) and tool.name in allowed)]


def _can_say(tool: Tool | HostTool, path: str, concessions: Concessions) -> bool:
    if isinstance(tool, HostTool):
        concessions.without(path, f"`{tool.kind}` is a tool of another API's own, which only that knows.")
        return False
    if tool.custom:
        concessions.without(path, "its tools take JSON, not free text.")
        return False
    for key, value in tool.extra.items():
        concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
    return True


def _write(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _has_required(tool: Tool) -> bool:
    schema: Any = {} if tool.parameters is None else msgspec.json.decode(tool.parameters)
    return isinstance(schema, dict) and bool(schema.get("required"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
