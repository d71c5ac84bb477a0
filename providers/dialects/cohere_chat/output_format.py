"""Output constraints as Cohere's `response_format`: JSON, or JSON of a schema whose root is an object.

Source: https://docs.cohere.com/reference/chat and https://docs.cohere.com/docs/structured-outputs ("Unsupported schema features", in
cohere-ai/cohere-developer-experience, fern/pages/v2/text-generation/structured-outputs.mdx), read 2026-11; recording cohere/06.
"""

from typing import Any

import msgspec

from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.canonical.raw_json import DECODE_ERRORS
from providers.structured_output.write_constraint_fields import display_name

_decode_schema = msgspec.json.Decoder(dict[str, Any]).decode

# Keywords that Cohere does not enforce, though it accepts some of them: those that its documentation excludes or does not mention.
# Patterns and formats are enforced in part. The documentation excludes `additionalProperties` too, but only declared ones are written.
_UNENFORCED_KEYWORDS = tuple(
    f'"{word}"'.encode()
    for word in (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"),
        *("uniqueItems", "contains", "prefixItems", "minProperties", "maxProperties", "propertyNames", "patternProperties"),
        *("dependentRequired", "dependentSchemas", "if", "not", "allOf", "anyOf", "oneOf", "pattern", "format"),
    )
)


def write_format(output: OutputFormat) -> dict[str, Any]:
    """Raises Unsupported for a constraint that `response_format` cannot express."""
    match output:
        case JsonObject():
            return {"type": "json_object"}
        case JsonSchema():
            if not _has_object_root(output):
                raise Unsupported("the root of its schemas must be an `object`.")
            return {"type": "json_object", "json_schema": output.schema}
        case _:
            raise Unsupported(f"it has no field for a {display_name(output)}.")


def is_enforced(output: OutputFormat) -> bool:
    """Whether Cohere enforces all of a constraint. A property with the name of an unenforced keyword counts as that keyword."""
    return not isinstance(output, JsonSchema) or not any(keyword in bytes(output.schema) for keyword in _UNENFORCED_KEYWORDS)


def _has_object_root(output: JsonSchema) -> bool:
    try:
        return _decode_schema(output.schema).get("type", "object") == "object"
    except DECODE_ERRORS:
        return False
