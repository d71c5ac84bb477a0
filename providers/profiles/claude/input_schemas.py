"""The input schema of a tool as Claude accepts it: an object at its root, whose type is said.

Sources: recorded 400s (docs/sources.md#anthropic; recordings anthropic/33 and 34: a root with `anyOf`, `oneOf` or `allOf`), Bedrock's
"inputSchema.json.type must be one of the following: object" (farion1231/cc-switch#5357, #4992), and the definition of tools at
https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools, read 2026-11.
"""

import re
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS

Schema = dict[str, Any]

_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS = ("allOf", "anyOf", "oneOf")
_LOCAL_REFERENCE = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_MAX_REFERENCES = 8

_decode_json = msgspec.json.Decoder().decode


class InputSchema(Struct, frozen=True):
    """The schema of a tool's input as Claude takes it."""

    schema: Raw
    loosened: tuple[str, ...] = ()  # keywords at the root of which only the description tells
    refusal: str | None = None  # why it cannot be the input of a tool at all


def fit_input_schema(parameters: Raw) -> InputSchema:
    """Arguments are always an object, also where the schema does not say so, or says null."""
    try:
        decoded: Any = _decode_json(parameters)
    except DECODE_ERRORS:
        return InputSchema(parameters)
    if decoded is None:
        decoded = {}
    fields = cast("Schema", decoded) if isinstance(decoded, dict) else None
    fields = None if fields is None else _resolve_root(fields)
    if fields is None or not _may_be_object(fields.get("type")):
        return InputSchema(parameters, refusal='the input of a tool must be an object: its schema needs {"type": "object"}.')
    loosened = tuple(keyword for keyword in _COMBINATORS if keyword in fields)
    for keyword in loosened:
        merged = _merge_alternatives(fields, keyword)
        if merged is None:
            return InputSchema(parameters, refusal=f"the input schema of a tool cannot have `{keyword}` at its top level.")
        fields = merged
    invalid_name = next((name for name in _object(fields.get("properties")) if not _PROPERTY_NAME.fullmatch(name)), None)
    if invalid_name is not None:
        rule = "names match ^[a-zA-Z0-9_.-]{1,64}$."
        return InputSchema(parameters, refusal=f"{invalid_name!r:.80} is not a valid property name in a tool's input: {rule}")
    if fields is decoded and fields.get("type") == "object":
        return InputSchema(parameters)
    return InputSchema(Raw(msgspec.json.encode({**fields, "type": "object"})), loosened)


def _may_be_object(types: Any) -> bool:
    return types in (None, "object") or (isinstance(types, list) and "object" in types)


def _resolve_root(schema: Schema) -> Schema | None:
    """The schema with the definition in place of a reference at its root; None: there is no such definition."""
    for _ in range(_MAX_REFERENCES):
        if "$ref" not in schema:
            return schema
        matched = _LOCAL_REFERENCE.fullmatch(str(schema["$ref"]))
        definitions: Any = schema.get(matched[1]) if matched is not None else None
        definition: Any = cast("Schema", definitions).get(matched[2]) if matched is not None and isinstance(definitions, dict) else None
        if not isinstance(definition, dict):
            return None
        schema = {**cast("Schema", definition), **{key: value for key, value in schema.items() if key != "$ref"}}
    return None


def _merge_alternatives(schema: Schema, keyword: str) -> Schema | None:
    """One object with the properties of all alternatives, which the description repeats: the model reads there which belong together.

    None: an alternative is no object.
    """
    raw_alternatives: Any = schema[keyword]
    if not isinstance(raw_alternatives, list):
        return None
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    alternatives: list[Schema] = []
    for each in cast("list[Any]", raw_alternatives):
        resolved = _resolve_root({**definitions, **cast("Schema", each)}) if isinstance(each, dict) else None
        if resolved is None or not _may_be_object(resolved.get("type")) or not resolved.keys().isdisjoint(_COMBINATORS):
            return None
        alternatives.append(resolved)
    required = [set(_names(each.get("required"))) for each in alternatives]
    combine = set[str].union if keyword == "allOf" else set[str].intersection
    common = combine(*required) if required else set[str]()
    merged: Schema = {key: value for key, value in schema.items() if key != keyword}
    merged["properties"] = {
        **{name: value for each in reversed(alternatives) for name, value in _object(each.get("properties")).items()},
        **_object(schema.get("properties")),
    }
    names = [*dict.fromkeys([*_names(schema.get("required")), *sorted(common)])]
    if names:
        merged["required"] = names
    described = msgspec.json.encode({keyword: raw_alternatives}).decode()
    merged["description"] = f"{merged['description']}\n\n{described}" if merged.get("description") else described
    return merged


def _object(value: Any) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else {}


def _names(value: Any) -> list[str]:
    return [each for each in cast("list[Any]", value) if isinstance(each, str)] if isinstance(value, list) else []
