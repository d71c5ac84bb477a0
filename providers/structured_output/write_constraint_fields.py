"""Writes an output format as the request fields that engines have for it."""

from typing import Any, assert_never

import msgspec

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag, output_kind
from providers.canonical.raw_json import DECODE_ERRORS


def write_structured_outputs(output: OutputFormat) -> dict[str, Any]:
    """vLLM from 0.12 on, which silently ignores guided_* fields. A structural tag must be a string (observed with 0.32)."""
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
    """The fields of vLLM before 0.12, and of the sandbox. Raises InvalidRequest for a structural tag that is no JSON object."""
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
    """OpenAI's `response_format`. Raises Unsupported for anything but JSON objects and schemas."""
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            json_schema: dict[str, Any] = {"name": output.name or "answer", "schema": output.schema}
            if output.description is not None:
                json_schema["description"] = output.description
            strict = True if is_sent_as_strict(output) else output.strict
            if strict is not None:
                json_schema["strict"] = strict
            return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
        case Regex() | Choice() | Grammar() | StructuralTag():
            raise Unsupported(f"OpenAI's dialects have no field for a {display_name(output)}, only for JSON schemas and JSON objects.")
        case _:
            assert_never(output)


def is_sent_as_strict(schema: JsonSchema) -> bool:
    """Whether write_response_format sends `strict: true`: the caller set it, or the schema has no name.

    A schema without a name comes from another field than `response_format`, whose caller expects it to be enforced; without `strict`
    OpenAI guarantees nothing.
    """
    return schema.strict is True or (schema.strict is None and schema.name is None)


def display_name(output: OutputFormat) -> str:
    """The name of its kind in error messages, such as "json schema"."""
    return output_kind(output).replace("_", " ")
