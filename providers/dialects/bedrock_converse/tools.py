"""Tools as Converse takes them, and which of them may or must be called.

Source: the service model of Bedrock Runtime in botocore 1.44 (ToolConfiguration); /reference/providers.md part 2; read 2026-11.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from providers.canonical.chat import ChatRequest, HostTool, Tool, ToolChoice
from providers.dialect import DropPolicy
from providers.dialects.bedrock_converse.cache_points import CACHE_CONTROL, Blocks, cache_point
from providers.dialects.bedrock_converse.names import TOOL_NAME, TOOL_RULE
from providers.profiles.bedrock_families import Family

_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')
# It has no word for "none", and refuses a history of calls without any tool.
_UNAVAILABLE = "This tool is not available any more: it must not be called."


def write_tools(chat: ChatRequest, family: Family, called_tools: Iterable[str], drop_policy: DropPolicy) -> dict[str, Any] | None:
    """`called`: the names of tools that the conversation has calls of."""
    choice = chat.tool_choice
    if choice is not None and choice.mode == "none":
        return _unavailable_tools(called_tools)
    allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
    tools: Blocks = []
    for index, tool in enumerate(chat.tools):
        if allowed is None or (isinstance(tool, Tool) and tool.name in allowed):
            tools += _write_tool(tool, f"tools[{index}]", family, drop_policy)
    if not tools:
        if choice is not None and choice.mode in ("required", "named"):
            drop_policy.drop_or_refuse("tool_choice", "there is no tool that it could call.")
        return _unavailable_tools(called_tools)
    if chat.parallel_calls is False:
        drop_policy.drop_or_refuse("parallel_calls", "it cannot hold a model to one call.")
    return {"tools": tools, **_write_tool_choice(choice)}


def _unavailable_tools(called_tools: Iterable[str]) -> dict[str, Any] | None:
    specs = [
        {"toolSpec": {"name": name, "description": _UNAVAILABLE, "inputSchema": {"json": _NO_PARAMETERS}}}
        for name in dict.fromkeys(called_tools)
    ]
    return {"tools": specs} if specs else None


def _write_tool(tool: Tool | HostTool, path: str, family: Family, drop_policy: DropPolicy) -> Blocks:
    if isinstance(tool, HostTool):
        drop_policy.drop_or_refuse(path, f"`{tool.kind}` is a tool of another API's own, which only that knows.")
        return []
    if tool.custom:
        drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
        return []
    if not TOOL_NAME.fullmatch(tool.name):
        drop_policy.drop_or_refuse(path, f"{tool.name!r:.100} cannot be its name: {TOOL_RULE}")
        return []
    for key, value in tool.extra.items():
        if key != CACHE_CONTROL:
            drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": tool.parameters or _NO_PARAMETERS}}
    if tool.description:
        spec["description"] = tool.description
    if tool.strict:
        if family.supports_schemas:
            spec["strict"] = True
        else:
            drop_policy.drop_or_refuse(f"{path}.strict", f"{family.name} does not hold the arguments of calls to their schema.")
    return [{"toolSpec": spec}, *cache_point(tool.extra, "tools", path, family, drop_policy)]


def _write_tool_choice(choice: ToolChoice | None) -> dict[str, Any]:
    """`auto` is what it does anyway, and a word that some models refuse."""
    if choice is None or choice.mode == "auto":
        return {}
    return {"toolChoice": {"any": {}} if choice.mode == "required" else {"tool": {"name": choice.name}}}
