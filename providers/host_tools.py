"""Tools that a host runs itself, on targets that have no such tool."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from providers.canonical.chat import HostTool, Tool
from providers.drop_policy import DropPolicy

# OpenAI's and Anthropic's types, which may end in a date.
_WEB_SEARCH = re.compile(r"web_search(_preview)?(_\d+(_\d+)*)?")


def is_web_search(kind: str) -> bool:
    """Whether a type of tool is a web search."""
    return _WEB_SEARCH.fullmatch(kind) is not None


def is_offered(kind: str) -> bool:
    """Whether callers offer a tool of this type beside their own functions, and do without it: a search of the web, or of deferred tools.

    Where the host does not search deferred tools, all tools are loaded at once.
    """
    return is_web_search(kind) or kind == "tool_search"


def mark_offered_search(tools: Sequence[Tool | HostTool]) -> tuple[Tool | HostTool, ...]:
    """The tools, with a search as optional: coding agents offer one beside their own tools, whatever the model.

    A web search as the only tool is no offer, but what the request is for.
    """
    if not any(isinstance(tool, Tool) for tool in tools):
        return tuple(tools)
    return tuple(replace(tool, optional=True) if isinstance(tool, HostTool) and is_offered(tool.kind) else tool for tool in tools)


def leave_out_host_tool(tool: HostTool, path: str, why: str, drop_policy: DropPolicy) -> None:
    """Drops a tool that the target does not have, with a report if it is optional. Else raises Unsupported unless that is allowed."""
    if tool.optional:
        drop_policy.drop_hint(path)
    else:
        drop_policy.drop_or_refuse(path, why)
