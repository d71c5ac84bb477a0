"""What an answer is to be like, as generationConfig says it, and which keywords of JSON Schema Google says that it holds to.

Sources: GenerationConfig.responseJsonSchema at https://ai.google.dev/api/generate-content, and the limitations at
https://ai.google.dev/gemini-api/docs/structured-output (other keywords are ignored), both read 2026-11.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import DECODE_ERRORS
from providers.structured_output import OutputFormat

_ENFORCED_KEYWORDS = frozenset(
    {
        *("$id", "$defs", "$ref", "$anchor", "type", "title", "description", "items", "prefixItems", "minItems", "maxItems"),
        *("minimum", "maximum", "anyOf", "properties", "additionalProperties", "required", "propertyOrdering"),
        # They say something about a schema, and nothing about what it allows.
        *("$schema", "$comment", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"),
    }
)
_SCHEMA_MAPS = frozenset({"properties", "$defs"})
_SCHEMA_LISTS = frozenset({"anyOf", "prefixItems"})
_SUBSCHEMAS = frozenset({"items", "additionalProperties"})
_FORMATS = frozenset({"date-time", "date", "time"})


def write_format(output: OutputFormat) -> dict[str, Any]:
    """Keys of generationConfig. Raises Unsupported for what it cannot say."""
    match output:
        case structured_output.JsonObject():
            return {"responseMimeType": "application/json"}
        case structured_output.JsonSchema():
            return {"responseMimeType": "application/json", "responseJsonSchema": _with_description(output)}
        case structured_output.Choice(options):
            if not all(options):
                raise Unsupported("none of the words it may choose from can be empty.")
            return {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": list(options)}}
        case structured_output.Regex() | structured_output.Grammar() | structured_output.StructuralTag():
            raise Unsupported(f"it has no field for a {structured_output.display_name(output)}.")


def _with_description(output: structured_output.JsonSchema) -> Raw:
    """What the caller says of the schema beside it has no place but in it."""
    try:
        schema = msgspec.json.decode(output.schema, type=dict[str, Raw])
    except DECODE_ERRORS:
        raise Unsupported("it takes a schema that is an object.") from None
    if output.description is None or "description" in schema:
        return output.schema
    return Raw(msgspec.json.encode({"description": output.description, **schema}))


def is_enforced(output: OutputFormat) -> bool:
    """Whether Google says that every answer obeys: not of JSON without a schema, which it may give as a list too."""
    return isinstance(output, structured_output.Choice) or (
        isinstance(output, structured_output.JsonSchema) and unenforced_keyword(output.schema) is None
    )


def unenforced_keyword(schema: Raw) -> str | None:
    """The first keyword that Google does not say it holds to; None: it holds to all."""
    try:
        return next(_unenforced_keywords(msgspec.json.decode(schema)), None)
    except DECODE_ERRORS:
        return "a schema nested without end"


def _unenforced_keywords(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return  # true and false
    for key, value in cast(Mapping[str, Any], schema).items():
        if key == "enum" and isinstance(value, list):
            if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in cast(list[Any], value)):
                yield "enum of other than texts and numbers"
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
