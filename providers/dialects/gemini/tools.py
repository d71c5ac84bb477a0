"""Tools as functionDeclarations, and which of them are called as functionCallingConfig.

Sources: https://ai.google.dev/api/caching#FunctionDeclaration, https://ai.google.dev/gemini-api/docs/function-calling, read 2026-11.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import ChatRequest, HostTool, Tool
from providers.dialect import Concessions
from providers.dialects.gemini.formats import loose_keyword
from providers.dialects.gemini.models import Rules
from providers.wire import UNREADABLE

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_SEARCH = re.compile(r"web_search(_preview)?(_\d+(_\d+)*)?")
_object = msgspec.json.Decoder(dict[str, Raw])


def write_tools(chat: ChatRequest, rules: Rules, concessions: Concessions) -> dict[str, Any]:
    """`tools` and `toolConfig`, as far as there is something to say. Schemas stand in parametersJsonSchema, which takes them whole."""
    choice = chat.tool_choice
    mode = "auto" if choice is None else choice.mode
    allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
    functions: list[dict[str, Any]] = []
    hosted: list[dict[str, Any]] = []
    strict = False
    for at, tool in enumerate(chat.tools):
        path = f"tools[{at}]"
        if isinstance(tool, HostTool):
            hosted += _hosted(tool, path, concessions)
        elif allowed is None or mode == "required" or tool.name in allowed:
            functions += _function(tool, path, concessions)
            strict = strict or _is_strict(tool, path, concessions)
    if hosted and functions and not rules.mixes:
        concessions.without("tools", "before Gemini 3 it takes either functions or a search of its own, not both.")
        hosted = []
    told: dict[str, Any] = {}
    tools = [*([{"functionDeclarations": functions}] if functions else []), *hosted]
    if tools:
        told["tools"] = tools
    config: dict[str, Any] = {}
    calling = _calling(chat, mode, functions, concessions, strict=strict)
    if calling:
        config["functionCallingConfig"] = calling
    if hosted and functions:
        config["includeServerSideToolInvocations"] = True
    return {**told, "toolConfig": config} if config else told


def _calling(
    chat: ChatRequest, mode: str, functions: list[dict[str, Any]], concessions: Concessions, *, strict: bool
) -> dict[str, Any] | None:
    """Mode VALIDATED is AUTO whose calls obey their schemas; those of ANY do anyway."""
    choice = chat.tool_choice
    if not functions:
        if mode in ("required", "named"):
            concessions.without("tool_choice", "there is no tool that it could call.")
        return None
    if mode == "none":
        return {"mode": "NONE"}
    if chat.parallel_calls is False:
        concessions.without("parallel_calls", "it cannot be held to one call at a time.")
    if choice is not None and mode == "named":
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if choice is not None and mode == "required":
        return {"mode": "ANY", **({} if choice.allowed is None else {"allowedFunctionNames": list(choice.allowed)})}
    return {"mode": "VALIDATED"} if strict else None


def _function(tool: Tool, path: str, concessions: Concessions) -> list[dict[str, Any]]:
    if tool.custom:
        concessions.without(path, "its tools take JSON, not free text.")
        return []
    if not _NAME.fullmatch(tool.name):
        concessions.without(
            path, "names of its tools begin with a letter or _, and have at most 128 letters, digits, _, dots, colons and dashes."
        )
        return []
    for key, value in tool.extra.items():
        concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
    told: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        told["description"] = tool.description
    if tool.parameters is not None:
        told["parametersJsonSchema"] = tool.parameters
    return [told]


def _is_strict(tool: Tool, path: str, concessions: Concessions) -> bool:
    if not tool.strict or tool.custom:
        return False
    loose = None if tool.parameters is None else loose_keyword(tool.parameters)
    if loose is not None:
        concessions.without(f"{path}.strict", f"it does not hold arguments to what `{loose}` says in their schema.")
    return True


def _hosted(tool: HostTool, path: str, concessions: Concessions) -> list[dict[str, Any]]:
    """A search of the web, of which nothing more is asked, is Google's own."""
    if _SEARCH.fullmatch(tool.kind):
        try:
            more = sorted(_object.decode(tool.raw).keys() - {"type", "name"})
        except UNREADABLE:
            more = []
        if not more:
            return [{"googleSearch": {}}]
        concessions.without(f"{path}.{more[0]}", "its search of the web takes no such wish.")
        return [{"googleSearch": {}}]
    concessions.without(path, f"`{tool.kind}` is a tool of another API's own, which only that knows.")
    return []
