"""Writing what is asked for in the words that engines obey."""

from typing import Any, assert_never

import msgspec

from providers.errors import Malformed, Unsupported
from providers.guided.output import Choice, Grammar, JsonObject, JsonSchema, Output, Regex, StructuralTag, kind_of
from providers.wire import UNREADABLE


def as_structured_outputs(output: Output) -> dict[str, Any]:
    """vLLM since 0.12, where guided_* fields are ignored with 200. A structural tag must be a string (seen on 0.32)."""
    match output:
        case JsonObject():
            told: dict[str, Any] = {"json_object": True}
        case JsonSchema():
            told = {"json": output.schema}
        case Regex():
            told = {"regex": output.pattern}
        case Choice():
            told = {"choice": output.options}
        case Grammar():
            told = {"grammar": output.text}
        case StructuralTag():
            told = {"structural_tag": output.text}
        case _:
            assert_never(output)
    return {"structured_outputs": told}


def as_guided_fields(output: Output) -> dict[str, Any]:
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
            except UNREADABLE as fault:
                raise Malformed(f"`structural_tag` is not JSON: {fault}.", param="structural_tag") from None
            if not isinstance(tag, dict):
                raise Malformed("`structural_tag` must hold a JSON object.", param="structural_tag")
            return {"response_format": {**tag, "type": "structural_tag"}}  # pyright: ignore[reportUnknownArgumentType]
        case _:
            assert_never(output)


def as_response_format(output: Output) -> dict[str, Any]:
    """OpenAI's own words, which know JSON alone.

    A schema without a name was not asked for in OpenAI's words: strict, as whoever asks for it so means to have it obeyed, and
    without it OpenAI promises nothing.
    """
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            named: dict[str, Any] = {"name": output.name or "answer", "schema": output.schema}
            if output.description is not None:
                named["description"] = output.description
            strict = True if output.strict is None and output.name is None else output.strict
            if strict is not None:
                named["strict"] = strict
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case Regex() | Choice() | Grammar() | StructuralTag():
            raise Unsupported(
                f"A {titled(output)} cannot be asked for in OpenAI's dialect, which knows JSON schemas and JSON objects alone."
            )
        case _:
            assert_never(output)


def titled(output: Output) -> str:
    """What people call it."""
    return kind_of(output).replace("_", " ")
