"""Output constraints as fields of generationConfig, and the keywords of JSON Schema that Google enforces.

Sources: GenerationConfig.responseJsonSchema at https://ai.google.dev/api/generate-content, and the limitations at
https://ai.google.dev/gemini-api/docs/structured-output (other keywords are ignored), both read 2026-11.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.errors import Unsupported
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import DECODE_ERRORS
from providers.structured_output.write_constraint_fields import display_name

_ENFORCED_KEYWORDS = frozenset(
    {
        *("$id", "$defs", "$ref", "$anchor", "type", "title", "description", "items", "prefixItems", "minItems", "maxItems"),
        *("minimum", "maximum", "anyOf", "properties", "additionalProperties", "required", "propertyOrdering"),
        # Annotations: they do not restrict what a schema allows.
        *("$schema", "$comment", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"),
    }
)
_SCHEMA_MAPS = frozenset({"properties", "$defs"})
_SCHEMA_LISTS = frozenset({"anyOf", "prefixItems"})
_SUBSCHEMAS = frozenset({"items", "additionalProperties"})
_FORMATS = frozenset({"date-time", "date", "time"})


def write_format(output: OutputFormat) -> dict[str, Any]:
    """The fields of generationConfig. Raises Unsupported for a constraint that they cannot express."""
    match output:
        case JsonObject():
            return {"responseMimeType": "application/json"}
        case JsonSchema():
            return {"responseMimeType": "application/json", "responseJsonSchema": _with_description(output)}
        case Choice(options):
            if not all(options):
                raise Unsupported("no option of a choice may be empty.")
            return {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": list(options)}}
        case Regex() | Grammar() | StructuralTag():
            raise Unsupported(f"it has no field for a {display_name(output)}.")


def _with_description(output: JsonSchema) -> Raw:
    """The schema with the description that the caller gave beside it, for which there is no other field."""
    try:
        schema = msgspec.json.decode(output.schema, type=dict[str, Raw])
    except DECODE_ERRORS:
        raise Unsupported("it takes a schema that is an object.") from None
    if output.description is None or "description" in schema:
        return output.schema
    return Raw(msgspec.json.encode({"description": output.description, **schema}))


def is_enforced(output: OutputFormat) -> bool:
    """Whether Google enforces all of a constraint. JSON without a schema is not: the model may write a list."""
    return isinstance(output, Choice) or (isinstance(output, JsonSchema) and unenforced_keyword(output.schema) is None)


def unenforced_keyword(schema: Raw) -> str | None:
    """The first keyword that Google does not document as enforced. None if there is none."""
    try:
        return next(_unenforced_keywords(msgspec.json.decode(schema)), None)
    except DECODE_ERRORS:
        return "a schema that is nested too deeply"


def _unenforced_keywords(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return  # a boolean schema
    for key, value in cast(Mapping[str, Any], schema).items():
        if key == "enum" and isinstance(value, list):
            if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in cast(list[Any], value)):
                yield "enum of values other than strings and numbers"
        elif key == "format":
            if value not in _FORMATS:
                yield f"format {value!r:.40}"
        elif key not in _ENFORCED_KEYWORDS:
            yield key
        elif key in _SCHEMA_MAPS and isinstance(value, dict):
            for inner in cast(Mapping[str, Any], value).values():
                yield from _unenforced_keywords(inner)
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            for inner in cast(list[Any], value):
                yield from _unenforced_keywords(inner)
        elif key in _SUBSCHEMAS:
            yield from _unenforced_keywords(value)
