"""Instructions: what a target has no field for, said to the model in the prompt."""

from msgspec.structs import replace

from providers.canonical.chat import Message, Text
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag

# The word "json" is what some hosts' JSON modes require in the messages: https://api-docs.deepseek.com/guides/json_mode, read 2026-11.
_JSON_ONLY = "Answer with {what} and nothing else (json): no explanation, no Markdown."


def describe_output(output: OutputFormat) -> str | None:
    """The instruction to answer in this format. None for a grammar or a tag: a model cannot be expected to follow those from the prompt."""
    match output:
        case JsonObject():
            return _JSON_ONLY.format(what="one JSON object")
        case JsonSchema():
            return f"{_JSON_ONLY.format(what='JSON')} It must be valid against this JSON schema:\n{bytes(output.schema).decode()}"
        case Regex():
            return f"Answer with a text that matches this regular expression as a whole, and with nothing else:\n{output.pattern}"
        case Choice():
            return "\n".join(["Answer with one of these texts, exactly as it is written, and with nothing else:", *output.options])
        case Grammar() | StructuralTag():
            return None


def add_instruction(messages: tuple[Message, ...], instruction: str) -> tuple[Message, ...]:
    """The messages with an instruction after those that the caller gives first."""
    if not messages or messages[0].role not in ("system", "developer"):
        return (Message("system", (Text(instruction),)), *messages)
    first = messages[0]
    return (replace(first, parts=(*first.parts, Text(f"\n\n{instruction}"))), *messages[1:])
