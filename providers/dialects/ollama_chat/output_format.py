"""What an answer is to be like, as Ollama's `format`: "json", or a JSON schema; and, said in a schema, a choice or a regex.

llama.cpp makes a grammar of the schema (/reference/engines.md 2.1, 2.4). A choice or a regex is then answered as a JSON string.
"""

from typing import Any

from providers import structured_output
from providers.canonical.errors import Unsupported
from providers.dialects.ollama_chat.schema_pattern import to_schema_pattern
from providers.structured_output import OutputFormat


def write_format(output: OutputFormat) -> Any:
    """Raises Unsupported for what it cannot say."""
    match output:
        case structured_output.JsonObject():
            return "json"
        case structured_output.JsonSchema():
            if bytes(output.schema)[:1] != b"{":
                raise Unsupported("its format takes a schema that is an object.")
            return output.schema
        case structured_output.Choice():
            return {"type": "string", "enum": output.options}
        case structured_output.Regex():
            return {"type": "string", "pattern": to_schema_pattern(output.pattern)}
        case structured_output.Grammar() | structured_output.StructuralTag():
            raise Unsupported(f"it has no field for a {structured_output.display_name(output)}.")


def is_quoted(output: OutputFormat) -> bool:
    """Whether the answer comes as a JSON string, of which the caller wants the text."""
    return isinstance(output, structured_output.Choice | structured_output.Regex)
