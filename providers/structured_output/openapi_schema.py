"""Schemas of OpenAPI's kind, as Google has them in `parameters` and `responseSchema`, as JSON schemas.

Types are in capitals, numbers may be strings (protocol buffers write 64 bits so), and `nullable` stands for a second type.

Source: https://ai.google.dev/api/caching#Schema, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest

_COUNTS = frozenset({"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"})
_MAX_DEPTH = 64


def read_openapi_schema(raw: Raw, path: str) -> Raw:
    """The JSON schema that means the same. Raises InvalidRequest for one that is nested too deeply."""
    schema = _read(msgspec.json.decode(raw), path, 0)
    return Raw(msgspec.json.encode(schema))


def _read(schema: Any, path: str, depth: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    if depth > _MAX_DEPTH:
        raise InvalidRequest(f"`{path}` is nested too deeply.", param=path)
    written: dict[str, Any] = {}
    nullable = False
    for key, value in cast("Mapping[str, Any]", schema).items():
        if value is None:
            continue
        match key:
            case "type":
                if value != "TYPE_UNSPECIFIED":
                    written[key] = value.lower() if isinstance(value, str) else value
            case "nullable":
                nullable = value is True
            case "properties" if isinstance(value, dict):
                inner = cast("Mapping[str, Any]", value)
                written[key] = {name: _read(each, path, depth + 1) for name, each in inner.items()}
            case "anyOf" if isinstance(value, list):
                written[key] = [_read(each, path, depth + 1) for each in cast("list[Any]", value)]
            case "items":
                written[key] = _read(value, path, depth + 1)
            case "example":
                written["examples"] = [value]
            case "propertyOrdering":
                continue  # the properties are in the order in which they were sent
            case "format" if value in ("enum", ""):
                continue
            case _ if key in _COUNTS and isinstance(value, str) and value.isdigit():
                written[key] = int(value)
            case _:
                written[key] = value
    return _allow_null(written) if nullable else written


def _allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str):
        allowed: dict[str, Any] = {**schema, "type": [kind, "null"]}
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            allowed["enum"] = [*schema["enum"], None]
        return allowed
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema
