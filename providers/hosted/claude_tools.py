"""Tools as Anthropic takes them: their names, what their input may be, and of which schemas it holds arguments to (`strict`).

Sources: 400s recorded of it (/reference/providers.md part 3; /shared/exchanges/anthropic/33 and 34), and its definition of tools at
https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools, read 2026-11.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.chat import ChatRequest, HostTool, Tool
from providers.dialect import Concessions
from providers.hosted.claude_schemas import MOST_OPTIONAL, MOST_STRICT_TOOLS, MOST_UNIONS, fitted
from providers.wire import UNREADABLE

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINING = frozenset({"oneOf", "allOf", "anyOf"})

_any = msgspec.json.Decoder().decode


def fit_tools(chat: ChatRequest, concessions: Concessions) -> tuple[Tool | HostTool, ...]:
    strict = _Strict(concessions)
    return tuple(told for at, tool in enumerate(chat.tools) for told in _fit(tool, f"tools[{at}]", strict, concessions))


def _fit(tool: Tool | HostTool, path: str, strict: "_Strict", concessions: Concessions) -> Iterator[Tool | HostTool]:
    if isinstance(tool, HostTool) or tool.custom:
        yield tool
        return
    fault = _fault_of_name(tool.name) or (None if tool.parameters is None else _fault_of_input(tool.parameters))
    if fault is not None:
        concessions.without(path, fault)
        return
    if tool.parameters is not None and "type" not in _any(tool.parameters):
        tool = replace(tool, parameters=Raw(msgspec.json.encode({"type": "object", **_any(tool.parameters)})))
    yield strict.fit(tool, path) if tool.strict else tool


def _fault_of_name(name: str) -> str | None:
    return None if _NAME.fullmatch(name) else f"{name!r:.140} cannot be the name of a tool: names match ^[a-zA-Z0-9_-]{{1,128}}$."


def _fault_of_input(parameters: Raw) -> str | None:
    try:
        schema: Any = _any(parameters)
    except UNREADABLE:
        return None
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":  # pyright: ignore[reportUnknownMemberType]
        return 'the input of a tool is an object: its schema is one of {"type": "object"}.'
    told = cast("dict[str, Any]", schema)
    combining = min(_COMBINING & told.keys(), default=None)
    if combining is not None:
        return f"the input of a tool cannot have `{combining}` at the top of its schema."
    named: Any = told.get("properties")
    strange = next((key for key in cast("dict[str, Any]", named) if not _KEY.fullmatch(key)), None) if isinstance(named, dict) else None
    return None if strange is None else f"{strange!r:.80} cannot be the name of an input's property: names match ^[a-zA-Z0-9_.-]{{1,64}}$."


class _Strict:
    """How much strict tools have needed so far of what all of them may need together."""

    def __init__(self, concessions: Concessions) -> None:
        self._concessions = concessions
        self._tools = self._optional = self._unions = 0

    def fit(self, tool: Tool, path: str) -> Tool:
        """What is let go is the promise, and not the tool."""
        told = fitted(tool.parameters or Raw(b'{"type":"object","properties":{}}'), closes=True)
        self._tools, self._optional, self._unions = self._tools + 1, self._optional + told.optional, self._unions + told.unions
        why = f"its arguments are not held to a schema with {told.lost[0]}." if told.lost else self._excess()
        if why is None:
            return replace(tool, parameters=told.schema)
        self._concessions.without(f"{path}.strict", why)
        return replace(tool, strict=None)

    def _excess(self) -> str | None:
        counted = (
            (self._tools, MOST_STRICT_TOOLS, "tools"),
            (self._optional, MOST_OPTIONAL, "optional properties in all"),
            (self._unions, MOST_UNIONS, "unions in all"),
        )
        more = next((f"{most} {what}" for count, most, what in counted if count > most), None)
        return None if more is None else f"strict tools may have at most {more}."
