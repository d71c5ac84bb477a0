"""Tools as Anthropic accepts them: names, input schemas, and the limits of strict tools.

Sources: recorded 400s (docs/sources.md#anthropic; recordings anthropic/33 and 34), and the definition of tools at
https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools, read 2026-11.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, HostTool, Tool
from providers.canonical.raw_json import DECODE_ERRORS
from providers.drop_policy import DropPolicy
from providers.profiles.claude.json_schemas import MAX_OPTIONAL_PROPERTIES, MAX_STRICT_TOOLS, MAX_UNIONS, fit_schema

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS = frozenset({"oneOf", "allOf", "anyOf"})

_decode_json = msgspec.json.Decoder().decode


def adapt_tools(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[Tool | HostTool, ...]:
    """The chat's tools with input schemas of type object, and `strict` only where Anthropic can enforce it."""
    strict_limits = _StrictToolLimits(drop_policy)
    return tuple(
        adapted for index, tool in enumerate(chat.tools) for adapted in _adapt_tool(tool, f"tools[{index}]", strict_limits, drop_policy)
    )


def _adapt_tool(tool: Tool | HostTool, path: str, strict_limits: "_StrictToolLimits", drop_policy: DropPolicy) -> Iterator[Tool | HostTool]:
    if isinstance(tool, HostTool) or tool.custom:
        yield tool
        return
    reason = _name_error(tool.name) or (None if tool.parameters is None else _input_schema_error(tool.parameters))
    if reason is not None:
        drop_policy.drop_or_refuse(path, reason)
        return
    if tool.parameters is not None and "type" not in _decode_json(tool.parameters):
        tool = replace(tool, parameters=Raw(msgspec.json.encode({"type": "object", **_decode_json(tool.parameters)})))
    yield strict_limits.adapt(tool, path) if tool.strict else tool


def _name_error(name: str) -> str | None:
    return None if _TOOL_NAME.fullmatch(name) else f"{name!r:.140} is not a valid tool name: names match ^[a-zA-Z0-9_-]{{1,128}}$."


def _input_schema_error(parameters: Raw) -> str | None:
    try:
        schema: Any = _decode_json(parameters)
    except DECODE_ERRORS:
        return None
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":  # pyright: ignore[reportUnknownMemberType]
        return 'the input of a tool must be an object: its schema needs {"type": "object"}.'
    fields = cast("dict[str, Any]", schema)
    combinator = min(_COMBINATORS & fields.keys(), default=None)
    if combinator is not None:
        return f"the input schema of a tool cannot have `{combinator}` at its top level."
    properties: Any = fields.get("properties")
    invalid_name = (
        next((key for key in cast("dict[str, Any]", properties) if not _PROPERTY_NAME.fullmatch(key)), None)
        if isinstance(properties, dict)
        else None
    )
    return (
        None
        if invalid_name is None
        else f"{invalid_name!r:.80} is not a valid property name in a tool's input: names match ^[a-zA-Z0-9_.-]{{1,64}}$."
    )


class _StrictToolLimits:
    """Counts what the strict tools of a request use of their common limits."""

    def __init__(self, drop_policy: DropPolicy) -> None:
        self._drop_policy = drop_policy
        self._tool_count = self._optional_count = self._union_count = 0

    def adapt(self, tool: Tool, path: str) -> Tool:
        """The tool with its fitted schema, or without `strict` where it cannot be enforced and the caller allows that."""
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
