"""Functions as other APIs know them: those of a namespace, which only this API has, and the search for tools that the caller runs.

A function in a namespace is called NAMESPACE__FUNCTION elsewhere. A `tool_search` that the caller executes is a function there, whose calls
are `tool_search_call` items here.
Source: openai-python 3, types/responses/namespace_tool.py and tool_search_tool.py; requests of the Codex CLI 0.171, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import NULL
from providers.dialects.openai_responses.context_items import list_tools
from providers.dialects.openai_responses.input_items import has_context_items
from providers.dialects.openai_responses.raw_fields import RawObject, raw_field, text_field

_object_decoder = msgspec.json.Decoder(RawObject)
_list_decoder = msgspec.json.Decoder(list[Raw])

SEARCH_NAME = "tool_search"
_SEARCH_PARAMETERS = Raw(b'{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}')
_SEARCH_DESCRIPTION = "Searches for further tools. Those that it finds can be called afterwards."


class CallNames(Struct, frozen=True):
    """How the calls of a response are written."""

    # qualified name -> the namespace and the name in it
    in_namespaces: Mapping[str, tuple[str, str]] = {}
    # whether a call of SEARCH_NAME is a search for tools that the caller executes
    has_search: bool = False


_NO_NAMES = CallNames()


def qualified_name(item: RawObject) -> str:
    """The name by which other APIs know the function of a call."""
    return _join(text_field(item, "namespace"), text_field(item, "name"))


def expand_namespace(tool: RawObject) -> list[RawObject]:
    """The functions of a namespace, by their qualified names. The first one's description begins with that of the namespace."""
    namespace, about = text_field(tool, "name"), text_field(tool, "description")
    functions = [_object_decoder.decode(each) for each in _list_decoder.decode(tool["tools"])]
    for function in functions:
        function["name"] = _encode(_join(namespace, text_field(function, "name")))
    if functions and about:
        own = text_field(functions[0], "description")
        functions[0]["description"] = _encode(f"{namespace}: {about}\n\n{own}".rstrip())
    return functions


def search_function(tool: RawObject) -> RawObject:
    """The search that the caller executes, as a function."""
    return {
        "type": Raw(b'"function"'),
        "name": _encode(SEARCH_NAME),
        "description": _encode(text_field(tool, "description") or _SEARCH_DESCRIPTION),
        "parameters": raw_field(tool, "parameters") or _SEARCH_PARAMETERS,
    }


def read_call_names(request_body: Mapping[str, Any]) -> CallNames:
    """The names for calls in the response to this request."""
    tools = request_body.get("tools")
    marked = isinstance(tools, Raw) and (b'"namespace"' in bytes(tools) or b'"tool_search"' in bytes(tools))
    if not marked and not has_context_items(request_body):
        return _NO_NAMES
    names: dict[str, tuple[str, str]] = {}
    has_search = False
    for placed in list_tools(request_body):
        tool = _object_decoder.decode(placed.raw)
        has_search = has_search or is_callers_search(tool)
        if is_namespace(tool):
            namespace = text_field(tool, "name")
            inner = (text_field(_object_decoder.decode(each), "name") for each in _list_decoder.decode(tool["tools"]))
            names.update({_join(namespace, name): (namespace, name) for name in inner})
    return CallNames(names, has_search)


def is_namespace(tool: RawObject) -> bool:
    return text_field(tool, "type") == "namespace" and tool.get("tools", NULL) != NULL


def is_callers_search(tool: RawObject) -> bool:
    """Whether this is a search for tools that the caller executes; OpenAI executes the others."""
    return text_field(tool, "type") == "tool_search" and text_field(tool, "execution") == "client"


def _join(namespace: str, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name


def _encode(text: str) -> Raw:
    return Raw(msgspec.json.encode(text))
