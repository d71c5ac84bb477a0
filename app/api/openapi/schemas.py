"""JSON Schemas of Structs for the OpenAPI document, with their descriptions and bounds."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from app.api.openapi.property_descriptions import describe_properties

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/"
_GENERIC = re.compile(r"(\w+?)_(\w+)_")
_DRAFT_ONLY = {"title"}  # the name again


def schemas_of(types: Sequence[Any], rename: Callable[[str], str] | None = None) -> tuple[list[Schema], dict[str, Schema]]:
    """The schema of each type, and the components that they refer to. `rename` gives a component's name in the document."""
    schemas, components = msgspec.json.schema_components(list(types), ref_template=REFERENCE + "{name}")
    schemas, components = msgspec.json.decode(msgspec.json.encode((schemas, components)))  # a default may be a tuple
    names = {name: (rename or component_name)(name) for name in components}
    cleaned = {names[name]: _clean(schema, names) for name, schema in components.items()}
    for component in cleaned.values():
        describe_properties(component)
    return [_clean(schema, names) for schema in schemas], cleaned


def component_name(name: str) -> str:
    """A name that generated clients can have: Page[Team] is TeamPage."""
    generic = _GENERIC.fullmatch(name)
    return re.sub(r"\W|_", "", f"{generic[2]}{generic[1]}" if generic else name)


def reference(name: str) -> Schema:
    return {"$ref": REFERENCE + name}


def without_null(schema: Schema) -> Schema:
    """The schema of a value that is left out rather than null, as a query parameter is."""
    choices: list[Schema] = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf" and (name, value) != ("default", None)}
    if not choices:
        return rest
    return {**rest, "anyOf": choices} if len(choices) > 1 else {**choices[0], **rest}


def _clean(schema: Any, names: Mapping[str, str]) -> Any:
    """The schema with components renamed, and without titles; a property may be called `title`."""
    if isinstance(schema, list):
        return [_clean(each, names) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    cleaned: Schema = {}
    for key, value in cast(Schema, schema).items():
        if key in ("properties", "$defs"):
            cleaned[key] = {name: _clean(each, names) for name, each in value.items()}
        elif key == "$ref":
            cleaned[key] = REFERENCE + names[value.removeprefix(REFERENCE)]
        elif key == "mapping":
            cleaned[key] = {name: REFERENCE + names[each.removeprefix(REFERENCE)] for name, each in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            cleaned[key] = value
        elif key not in _DRAFT_ONLY:
            cleaned[key] = _clean(value, names)
    if cleaned.get("type") == "array":
        if cleaned.get("items", {}) is False:
            cleaned["items"] = _item_of_tuple(cleaned.pop("prefixItems"))
        cleaned.setdefault("items", {})  # generators of clients want it
    if "enum" in cleaned and "type" not in cleaned:
        cleaned.update(_enum_type(cleaned["enum"]))
    return cleaned


def _item_of_tuple(items: Sequence[Schema]) -> Schema:
    """Returns a schema that each item of a tuple matches.

    Generators of clients refuse a document with `items: false`. The tuple's bounds say how many items there
    are.
    """
    kinds = [item for index, item in enumerate(items) if item not in items[:index]]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _enum_type(values: Sequence[Any]) -> Schema:
    """Generators of clients want the type of an enum."""
    kinds = {"boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "integer" for value in values}
    return {"type": kinds.pop()} if len(kinds) == 1 else {}
