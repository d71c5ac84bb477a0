"""Schemas of the input of tools: the type that stricter hosts want said, where a schema leaves it out."""

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from providers.canonical.raw_json import NULL

OBJECT_TYPE = Raw(b'"object"')
NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')
# Keywords beside which `properties` need not stand.
_COMPOSITE_KEYWORDS = frozenset({"properties", "anyOf", "oneOf", "allOf", "additionalProperties", "patternProperties"})

_decode_schema = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.decode


def _null() -> Raw:
    """The OpenAPI document cannot show a Raw value as a default."""
    return NULL


class SchemaHead(Struct, gc=False):
    """A schema of which only the type is read: `schema.type != OBJECT_TYPE` finds those that type_as_object() may change."""

    type: Raw = field(default_factory=_null)


def type_as_object(schema: Raw) -> Raw:
    """The schema of a tool's input with `type: object`, where it has none, null, or a list of types of which that is one.

    Codex and others leave the type out, and OpenAI takes it so; DeepSeek, Kimi and Bedrock answer 400 (`inputSchema.json.type must be one
    of the following: object`). The input of a tool is an object in every API, so the schema means the same with the type. A `$ref` is
    left alone: Gemini takes no other keyword beside one. Sources: farion1231/cc-switch#5357, #4992 and #4864, read 2026-11.
    """
    fields = _decode_schema(schema)
    if not _is_object(fields.get("type", NULL)) or "$ref" in fields:
        return schema
    fields["type"] = OBJECT_TYPE
    typed = {"type": fields.pop("type"), **fields}
    if _COMPOSITE_KEYWORDS.isdisjoint(fields):
        typed["properties"] = Raw(b"{}")
    return Raw(msgspec.json.encode(typed))


def is_schema_of_object(schema: SchemaHead) -> bool:
    """Whether this schema allows an object, or says nothing of the type."""
    return schema.type == OBJECT_TYPE or _is_object(schema.type)


def _is_object(type: Raw) -> bool:
    """Whether this type, which is not `"object"`, allows an object or anything."""
    value: Any = _decode(type)
    return value is None or (isinstance(value, list) and "object" in value)
