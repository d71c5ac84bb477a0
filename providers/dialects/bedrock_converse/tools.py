"""Tools of Converse, and the choice among them.

Source: the service model of Bedrock Runtime in botocore 1.44 (ToolConfiguration); docs/sources.md#bedrock; read 2026-11.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from providers.canonical.chat import ChatRequest, HostTool, Tool, ToolChoice
from providers.dialects.bedrock_converse.cache_points import CACHE_CONTROL, Blocks, cache_point
from providers.dialects.bedrock_converse.names import TOOL_NAME, TOOL_RULE
from providers.drop_policy import DropPolicy
from providers.host_tools import leave_out_host_tool
from providers.profiles.bedrock.families import Family
from providers.unsupported import drop_part_fields

_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')
# There is no tool choice "none", and a history with calls is refused without any tool.
_UNAVAILABLE = "This tool is not available any more: it must not be called."


def write_tools(chat: ChatRequest, family: Family, called_tools: Iterable[str], drop_policy: DropPolicy) -> dict[str, Any] | None:
    """The toolConfig; None if there are no tools. `called_tools` are the names of tools that the conversation has calls of."""
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
            drop_policy.drop_or_refuse("tool_choice", "there is no tool to call.")
        return _unavailable_tools(called_tools)
    if chat.parallel_calls is False:
        drop_policy.drop_or_refuse("parallel_calls", "it cannot limit a model to one call.")
    return {"tools": tools, **_write_tool_choice(choice)}


def _unavailable_tools(called_tools: Iterable[str]) -> dict[str, Any] | None:
    specs = [
        {"toolSpec": {"name": name, "description": _UNAVAILABLE, "inputSchema": {"json": _NO_PARAMETERS}}}
        for name in dict.fromkeys(called_tools)
    ]
    return {"tools": specs} if specs else None


def _write_tool(tool: Tool | HostTool, path: str, family: Family, drop_policy: DropPolicy) -> Blocks:
    if isinstance(tool, HostTool):
        leave_out_host_tool(tool, path, f"only another API has the tool `{tool.kind}`, which its host runs itself.", drop_policy)
        return []
    if tool.custom:
        drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
        return []
    if not TOOL_NAME.fullmatch(tool.name):
        drop_policy.drop_or_refuse(path, f"{tool.name!r:.100} is not a valid name: {TOOL_RULE}")
        return []
    drop_part_fields({key: value for key, value in tool.extra.items() if key != CACHE_CONTROL}, path, drop_policy)
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": tool.parameters or _NO_PARAMETERS}}
    if tool.description:
        spec["description"] = tool.description
    if tool.strict:
        if family.supports_schemas:
            spec["strict"] = True
        else:
            drop_policy.drop_or_refuse(f"{path}.strict", f"{family.name} does not enforce the schemas of tools.")
    return [{"toolSpec": spec}, *cache_point(tool.extra, "tools", path, family, drop_policy)]


def _write_tool_choice(choice: ToolChoice | None) -> dict[str, Any]:
    """Leaves out `auto`, the default, which some models refuse."""
    if choice is None or choice.mode == "auto":
        return {}
    return {"toolChoice": {"any": {}} if choice.mode == "required" else {"tool": {"name": choice.name}}}
