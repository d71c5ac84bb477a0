"""Namespaces: named groups of the caller's functions. No other API has them, so there a function is called NAMESPACE__FUNCTION.

Source: openai-python 3, types/responses/namespace_tool.py; requests of the Codex CLI 0.169, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL
from providers.dialects.openai_responses.raw_fields import RawObject, text_field

_object_decoder = msgspec.json.Decoder(RawObject)
_list_decoder = msgspec.json.Decoder(list[Raw])

# Qualified name -> the namespace and the name in it.
QualifiedNames = Mapping[str, tuple[str, str]]


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


def read_qualified_names(request_body: Mapping[str, Any]) -> QualifiedNames:
    """The functions that this request has in namespaces."""
    tools = request_body.get("tools")
    if not isinstance(tools, Raw) or b'"namespace"' not in bytes(tools):
        return {}
    names: dict[str, tuple[str, str]] = {}
    for raw in _list_decoder.decode(tools):
        tool = _object_decoder.decode(raw)
        if is_namespace(tool):
            namespace = text_field(tool, "name")
            inner = (text_field(_object_decoder.decode(each), "name") for each in _list_decoder.decode(tool["tools"]))
            names.update({_join(namespace, name): (namespace, name) for name in inner})
    return names


def is_namespace(tool: RawObject) -> bool:
    return text_field(tool, "type") == "namespace" and tool.get("tools", NULL) != NULL


def _join(namespace: str, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name


def _encode(text: str) -> Raw:
    return Raw(msgspec.json.encode(text))
