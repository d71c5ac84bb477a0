"""Tools as Anthropic accepts them: names, input schemas, and the limits of strict tools.

Sources: recorded 400s (docs/sources.md#anthropic; recordings anthropic/33 and 34), and the definition of tools at
https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools, read 2026-11.
"""

import re
from collections.abc import Iterator

from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, HostTool, Tool
from providers.drop_policy import DropPolicy
from providers.profiles.claude.input_schemas import fit_input_schema
from providers.profiles.claude.json_schemas import MAX_OPTIONAL_PROPERTIES, MAX_STRICT_TOOLS, MAX_UNIONS, fit_schema

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def adapt_tools(chat: ChatRequest, drop_policy: DropPolicy, *, takes_schemas: bool = True) -> tuple[Tool | HostTool, ...]:
    """The chat's tools with input schemas of type object, and `strict` only where the model and its host can enforce it."""
    strict_limits = _StrictToolLimits(drop_policy, takes_schemas=takes_schemas)
    return tuple(
        adapted for index, tool in enumerate(chat.tools) for adapted in _adapt_tool(tool, f"tools[{index}]", strict_limits, drop_policy)
    )


def fit_tools(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[Tool | HostTool, ...]:
    """The chat's tools with input schemas of type object; what becomes of `strict` is left to a gateway between."""
    return tuple(adapted for index, tool in enumerate(chat.tools) for adapted in _adapt_tool(tool, f"tools[{index}]", None, drop_policy))


def _adapt_tool(
    tool: Tool | HostTool, path: str, strict_limits: "_StrictToolLimits | None", drop_policy: DropPolicy
) -> Iterator[Tool | HostTool]:
    if isinstance(tool, HostTool) or tool.custom:
        yield tool
        return
    reason = _name_error(tool.name)
    if reason is None and tool.parameters is not None:
        fitted = fit_input_schema(tool.parameters)
        reason = fitted.refusal
        for keyword in fitted.loosened:
            drop_policy.drop_hint(f"{path}.parameters.{keyword}")
        if fitted.schema is not tool.parameters:
            tool = replace(tool, parameters=fitted.schema)
    if reason is not None:
        drop_policy.drop_or_refuse(path, reason)
        return
    yield strict_limits.adapt(tool, path) if tool.strict and strict_limits is not None else tool


def _name_error(name: str) -> str | None:
    return None if _TOOL_NAME.fullmatch(name) else f"{name!r:.140} is not a valid tool name: names match ^[a-zA-Z0-9_-]{{1,128}}$."


class _StrictToolLimits:
    """Counts what the strict tools of a request use of their common limits."""

    def __init__(self, drop_policy: DropPolicy, *, takes_schemas: bool) -> None:
        self._drop_policy = drop_policy
        self._takes_schemas = takes_schemas
        self._tool_count = self._optional_count = self._union_count = 0

    def adapt(self, tool: Tool, path: str) -> Tool:
        """The tool with its fitted schema, or without `strict` where it cannot be enforced and the caller allows that."""
        if not self._takes_schemas:
            self._drop_policy.drop_or_refuse(f"{path}.strict", "it does not hold the arguments of calls to their schema.")
            return replace(tool, strict=None)
        fitted_schema = fit_schema(tool.parameters or Raw(b'{"type":"object","properties":{}}'), closes_objects=True)
        self._tool_count, self._optional_count, self._union_count = (
            self._tool_count + 1,
            self._optional_count + fitted_schema.optional_properties,
            self._union_count + fitted_schema.unions,
        )
        why = f"it cannot enforce a schema with {fitted_schema.dropped[0]}." if fitted_schema.dropped else self._exceeded_limit()
        if why is None:
            return replace(tool, parameters=fitted_schema.schema)
        self._drop_policy.drop_or_refuse(f"{path}.strict", why)
        return replace(tool, strict=None)

    def _exceeded_limit(self) -> str | None:
        usage = (
            (self._tool_count, MAX_STRICT_TOOLS, "tools"),
            (self._optional_count, MAX_OPTIONAL_PROPERTIES, "optional properties in all"),
            (self._union_count, MAX_UNIONS, "unions in all"),
        )
        exceeded = next((f"{maximum} {what}" for count, maximum, what in usage if count > maximum), None)
        return None if exceeded is None else f"strict tools may have at most {exceeded}."
