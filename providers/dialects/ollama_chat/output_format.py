"""Output constraints as Ollama's `format`: "json" or a JSON schema. A choice or a regex is written as a schema.

llama.cpp makes a grammar of the schema (docs/sources.md#ollama, docs/sources.md#constraint-conversions). A choice or a regex is then
answered as a JSON string.
"""

from typing import Any

from providers.canonical.errors import Unsupported
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.dialects.ollama_chat.schema_pattern import to_schema_pattern
from providers.structured_output.write_constraint_fields import display_name


def write_format(output: OutputFormat) -> Any:
    """Raises Unsupported for a constraint that `format` cannot express."""
    match output:
        case JsonObject():
            return "json"
        case JsonSchema():
            if bytes(output.schema)[:1] != b"{":
                raise Unsupported("its format takes a schema that is an object.")
            return output.schema
        case Choice():
            return {"type": "string", "enum": output.options}
        case Regex():
            return {"type": "string", "pattern": to_schema_pattern(output.pattern)}
        case Grammar() | StructuralTag():
            raise Unsupported(f"it has no field for a {display_name(output)}.")


def is_quoted(output: OutputFormat) -> bool:
    """Whether the engine answers with a JSON string, of which the caller wants the text."""
    return isinstance(output, Choice | Regex)
