"""What an answer is to be like, as Ollama's `format`: "json", or a JSON schema; and, said in a schema, a choice or a regex.

llama.cpp makes a grammar of the schema (/reference/engines.md 2.1, 2.4). A choice or a regex is then answered as a JSON string.
"""

from typing import Any

from providers import guided
from providers.dialects.ollama_chat.patterns import as_pattern
from providers.errors import Unsupported
from providers.guided import Output


def write_format(output: Output) -> Any:
    """Raises Unsupported for what it cannot say."""
    match output:
        case guided.JsonObject():
            return "json"
        case guided.JsonSchema():
            if bytes(output.schema)[:1] != b"{":
                raise Unsupported("its format takes a schema that is an object.")
            return output.schema
        case guided.Choice():
            return {"type": "string", "enum": output.options}
        case guided.Regex():
            return {"type": "string", "pattern": as_pattern(output.pattern)}
        case guided.Grammar() | guided.StructuralTag():
            raise Unsupported(f"it has no field for a {guided.titled(output)}.")


def is_quoted(output: Output) -> bool:
    """Whether the answer comes as a JSON string, of which the caller wants the text."""
    return isinstance(output, guided.Choice | guided.Regex)
