"""TypeScript types of the admin API, for the dashboard, from the OpenAPI document: of each schema, and of each operation."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from app.api.openapi.schemas import Schema

PREFIX = "/admin/v1"
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_REFERENCE = "#/components/schemas/"
OPENING = "// Generated from the OpenAPI document by `make dashboard`: do not edit."


def write_types(document: Schema) -> str:
    """Writes an interface for each schema that the admin API uses, and the map of its operations by method and path."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    operations = [
        (f"{method.upper()} {path.removeprefix(PREFIX)}", described)
        for path, item in sorted(document["paths"].items())
        if path.startswith(PREFIX)
        for method, described in item.items()
    ]
    used = find_used(schemas, (name for _, described in operations for name in _references(described)))
    types = [f"export type {name} = {_type(schemas[name])};" for name in sorted(used)]
    table = "".join(f"  {json.dumps(name)}: {_operation(described)};\n" for name, described in operations)
    return "\n".join([OPENING, "", *types, "", f"export interface Operations {{\n{table}}}", ""])


def find_used(schemas: Mapping[str, Schema], names: Iterable[str]) -> set[str]:
    """Returns the names of schemas, and of those that they refer to."""
    used, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += _references(schemas[name])
    return used


def _references(value: Any) -> Iterator[str]:
    match value:
        case {"$ref": str(target)} if target.startswith(_REFERENCE):
            yield target.removeprefix(_REFERENCE)
        case dict():
            for each in value.values():  # pyright: ignore[reportUnknownVariableType]
                yield from _references(each)
        case list():
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                yield from _references(each)
        case _:
            pass


def _operation(described: Schema) -> str:
    parameters = [each for each in described.get("parameters", []) if each.get("in") == "query"]
    query = "; ".join(f"{_key(each['name'])}?: {_type(each['schema'])}" for each in parameters)
    body = _content(described.get("requestBody", {}))
    successes = [response for status, response in described["responses"].items() if status.startswith("2")]
    answers = dict.fromkeys(_content(response) for response in successes)
    return f"{{ query: {{ {query} }}; body: {body}; answer: {' | '.join(answers) or 'never'} }}"


def _content(described: Schema) -> str:
    for media_type, content in described.get("content", {}).items():
        return _type(content.get("schema", {})) if media_type == "application/json" else "string"
    return "never"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return schema["$ref"].removeprefix(_REFERENCE)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    for combined in ("anyOf", "oneOf"):
        if combined in schema:
            return " | ".join(dict.fromkeys(_grouped(_type(each)) for each in schema[combined]))
    match schema.get("type"):
        case "string":
            return "string"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case "array":
            return f"{_grouped(_type(schema.get('items', {})))}[]"
        case "object":
            return _object(schema)
        case [*types]:
            return " | ".join(_type({**schema, "type": each}) for each in cast("list[str]", types))
        case _:
            return "unknown"


def _grouped(text: str) -> str:
    return f"({text})" if " | " in text and not text.startswith("{") else text


def _object(schema: Schema) -> str:
    required = set(schema.get("required", ()))
    fields = [
        f"{_key(name)}{'' if name in required else '?'}: {_type(described)}" for name, described in schema.get("properties", {}).items()
    ]
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        fields.append(f"[name: string]: {_type(cast('Schema', others)) if not fields else 'unknown'}")
    elif others is True or (not fields and others is None):
        fields.append("[name: string]: unknown")
    return f"{{ {'; '.join(fields)} }}" if fields else "{}"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)
