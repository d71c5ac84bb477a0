"""Tools that a host runs itself, on targets that have no such tool."""

from providers.canonical.chat import HostTool
from providers.drop_policy import DropPolicy


def leave_out_host_tool(tool: HostTool, path: str, why: str, drop_policy: DropPolicy) -> None:
    """Drops a tool that the target does not have, with a report if it is optional. Else raises Unsupported unless that is allowed."""
    if tool.optional:
        drop_policy.drop_hint(path)
    else:
        drop_policy.drop_or_refuse(path, why)
