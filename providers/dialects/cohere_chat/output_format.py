"""What an answer is to be like, as Cohere's `response_format`: JSON, or JSON of a schema whose root is an object.

Source: https://docs.cohere.com/reference/chat and https://docs.cohere.com/docs/structured-outputs ("Unsupported schema features", in
cohere-ai/cohere-developer-experience, fern/pages/v2/text-generation/structured-outputs.mdx), read 2026-11; recording cohere/06.
"""

from typing import Any

import msgspec

from providers import structured_output
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import DECODE_ERRORS
from providers.structured_output import OutputFormat

_decode_schema = msgspec.json.Decoder(dict[str, Any]).decode

# Keywords that it does not hold an answer to, though it takes some of them: those that Cohere names, and those that it does not speak of.
# Of what it does hold to, patterns and formats are held in part. `additionalProperties` it names too, but it writes declared ones alone.
_UNENFORCED_KEYWORDS = tuple(
    f'"{word}"'.encode()
    for word in (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"),
        *("uniqueItems", "contains", "prefixItems", "minProperties", "maxProperties", "propertyNames", "patternProperties"),
        *("dependentRequired", "dependentSchemas", "if", "not", "allOf", "anyOf", "oneOf", "pattern", "format"),
    )
)


def write_format(output: OutputFormat) -> dict[str, Any]:
    """Raises Unsupported for what it cannot say."""
    match output:
        case structured_output.JsonObject():
            return {"type": "json_object"}
        case structured_output.JsonSchema():
            if not _has_object_root(output):
                raise Unsupported("the root of its schemas must be of type `object`.")
            return {"type": "json_object", "json_schema": output.schema}
        case _:
            raise Unsupported(f"it has no field for a {structured_output.display_name(output)}.")


def is_enforced(output: OutputFormat) -> bool:
    """Whether it holds an answer to all that is said; where a keyword may only be a property's name, it counts as not."""
    return not isinstance(output, structured_output.JsonSchema) or not any(
        keyword in bytes(output.schema) for keyword in _UNENFORCED_KEYWORDS
    )


def _has_object_root(output: structured_output.JsonSchema) -> bool:
    try:
        return _decode_schema(output.schema).get("type", "object") == "object"
    except DECODE_ERRORS:
        return False
