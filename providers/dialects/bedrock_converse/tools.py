"""Tools as Converse takes them, and which of them may or must be called.

Source: the service model of Bedrock Runtime in botocore 1.44 (ToolConfiguration); /reference/providers.md part 2; read 2026-11.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from providers.chat import ChatRequest, HostTool, Tool, ToolChoice
from providers.dialect import Concessions
from providers.dialects.bedrock_converse.caching import KEY, Blocks, cache_point
from providers.dialects.bedrock_converse.families import Family
from providers.dialects.bedrock_converse.names import TOOL_NAME, TOOL_RULE

_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')
# It has no word for "none", and refuses a history of calls without any tool.
_GONE = "This tool is not available any more: it must not be called."


def write_tools(chat: ChatRequest, family: Family, called: Iterable[str], concessions: Concessions) -> dict[str, Any] | None:
    """`called`: the names of tools that the conversation has calls of."""
    choice = chat.tool_choice
    if choice is not None and choice.mode == "none":
        return _gone(called)
    allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
    tools: Blocks = []
    for at, tool in enumerate(chat.tools):
        if allowed is None or (isinstance(tool, Tool) and tool.name in allowed):
            tools += _write(tool, f"tools[{at}]", family, concessions)
    if not tools:
        if choice is not None and choice.mode in ("required", "named"):
            concessions.without("tool_choice", "there is no tool that it could call.")
        return _gone(called)
    if chat.parallel_calls is False:
        concessions.without("parallel_calls", "it cannot hold a model to one call.")
    return {"tools": tools, **_choice(choice)}


def _gone(called: Iterable[str]) -> dict[str, Any] | None:
    specs = [{"toolSpec": {"name": name, "description": _GONE, "inputSchema": {"json": _NO_PARAMETERS}}} for name in dict.fromkeys(called)]
    return {"tools": specs} if specs else None


def _write(tool: Tool | HostTool, path: str, family: Family, concessions: Concessions) -> Blocks:
    if isinstance(tool, HostTool):
        concessions.without(path, f"`{tool.kind}` is a tool of another API's own, which only that knows.")
        return []
    if tool.custom:
        concessions.without(path, "its tools take JSON, not free text.")
        return []
    if not TOOL_NAME.fullmatch(tool.name):
        concessions.without(path, f"{tool.name!r:.100} cannot be its name: {TOOL_RULE}")
        return []
    for key, value in tool.extra.items():
        if key != KEY:
            concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": tool.parameters or _NO_PARAMETERS}}
    if tool.description:
        spec["description"] = tool.description
    if tool.strict:
        if family.structured:
            spec["strict"] = True
        else:
            concessions.without(f"{path}.strict", f"{family.name} does not hold the arguments of calls to their schema.")
    return [{"toolSpec": spec}, *cache_point(tool.extra, "tools", path, family, concessions)]


def _choice(choice: ToolChoice | None) -> dict[str, Any]:
    """`auto` is what it does anyway, and a word that some models refuse."""
    if choice is None or choice.mode == "auto":
        return {}
    return {"toolChoice": {"any": {}} if choice.mode == "required" else {"tool": {"name": choice.name}}}
