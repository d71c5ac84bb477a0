"""JSON schemas for engines that accept only objects as schemas, while JSON Schema has `true` and `false` too."""

from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from providers import structured_output
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonSchema, OutputFormat


def as_object_schema(schema: Raw) -> Raw:
    """The schema as an object: `true`, by which everything is valid, as {}. Raises Unsupported for `false`, by which nothing is."""
    text = bytes(schema).strip()
    if text == b"false":
        raise Unsupported("no response is valid by the schema `false`.")
    return Raw(b"{}") if text == b"true" else schema


def write_object_response_format(output: OutputFormat) -> dict[str, Any]:
    """OpenAI's response_format, with an object for the schema. Raises Unsupported as as_object_schema() does."""
    if isinstance(output, JsonSchema):
        output = replace(output, schema=as_object_schema(output.schema))
    return structured_output.write_response_format(output)
