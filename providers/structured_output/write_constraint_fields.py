"""Writing what is asked for in the words that engines obey."""

from typing import Any, assert_never

import msgspec

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag, output_kind
from providers.canonical.raw_json import DECODE_ERRORS


def write_structured_outputs(output: OutputFormat) -> dict[str, Any]:
    """vLLM since 0.12, where guided_* fields are ignored with 200. A structural tag must be a string (seen on 0.32)."""
    match output:
        case JsonObject():
            fields: dict[str, Any] = {"json_object": True}
        case JsonSchema():
            fields = {"json": output.schema}
        case Regex():
            fields = {"regex": output.pattern}
        case Choice():
            fields = {"choice": output.options}
        case Grammar():
            fields = {"grammar": output.text}
        case StructuralTag():
            fields = {"structural_tag": output.text}
        case _:
            assert_never(output)
    return {"structured_outputs": fields}


def write_guided_fields(output: OutputFormat) -> dict[str, Any]:
    """vLLM before 0.12, and the sandbox."""
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            return {"guided_json": output.schema}
        case Regex():
            return {"guided_regex": output.pattern}
        case Choice():
            return {"guided_choice": output.options}
        case Grammar():
            return {"guided_grammar": output.text}
        case StructuralTag():
            try:
                tag = msgspec.json.decode(output.text)
            except DECODE_ERRORS as error:
                raise InvalidRequest(f"`structural_tag` is not JSON: {error}.", param="structural_tag") from None
            if not isinstance(tag, dict):
                raise InvalidRequest("`structural_tag` must hold a JSON object.", param="structural_tag")
            return {"response_format": {**tag, "type": "structural_tag"}}  # pyright: ignore[reportUnknownArgumentType]
        case _:
            assert_never(output)


def write_response_format(output: OutputFormat) -> dict[str, Any]:
    """OpenAI's own words, which know JSON alone.

    A schema without a name was not asked for in OpenAI's words: strict, as whoever asks for it so means to have it obeyed, and
    without it OpenAI promises nothing.
    """
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            json_schema: dict[str, Any] = {"name": output.name or "answer", "schema": output.schema}
            if output.description is not None:
                json_schema["description"] = output.description
            strict = True if output.strict is None and output.name is None else output.strict
            if strict is not None:
                json_schema["strict"] = strict
            return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
        case Regex() | Choice() | Grammar() | StructuralTag():
            raise Unsupported(
                f"A {display_name(output)} cannot be asked for in OpenAI's dialect, which knows JSON schemas and JSON objects alone."
            )
        case _:
            assert_never(output)


def display_name(output: OutputFormat) -> str:
    """What people call it."""
    return output_kind(output).replace("_", " ")
