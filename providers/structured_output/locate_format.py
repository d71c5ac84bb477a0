"""Locates the output format in a request body: in the dialect's own field, or in a constraint field of engines."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import Choice, JsonObject, JsonSchema, OutputFormat, output_kind
from providers.canonical.raw_json import NULL, Body
from providers.structured_output.openapi_schema import read_openapi_schema
from providers.structured_output.read_constraint_fields import CONSTRAINT_FIELDS, read_output_format, read_structured_outputs
from providers.structured_output.read_response_format import read_response_format, response_format_value_path

_ENGINE_FIELDS = CONSTRAINT_FIELDS | {"guided_whitespace_pattern"}

CONSTRAINT_FIELDS_BY_DIALECT: Mapping[str, frozenset[str]] = {
    "openai_chat": _ENGINE_FIELDS | {"response_format"},
    "openai_completions": _ENGINE_FIELDS | {"response_format"},
    "openai_responses": _ENGINE_FIELDS | {"text"},
    "anthropic_messages": _ENGINE_FIELDS | {"output_config", "output_format"},
    "gemini": _ENGINE_FIELDS | {"generationConfig"},
    "vllm_generate": frozenset({"sampling_params"}),
    "tensorzero_inference": frozenset({"output_schema", "json_mode"}),
}
"""The top-level fields that may hold an output format in each dialect: its own, and those of engines, which all callers may send."""

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class LocatedFormat(Struct, frozen=True):
    """An output format, and where the caller wrote it."""

    output: OutputFormat
    path: str  # the caller's path of the format
    is_openai_format: bool = False  # whether it is a `response_format` in OpenAI's own form


def locate_format(dialect: str, body: Body) -> LocatedFormat | None:
    """Returns the output format and its place, or None if the body has none.

    Raises InvalidRequest for two of them, or an invalid one.
    """
    if dialect == "vllm_generate":
        return _locate_in_sampling_params(body)
    output = read_output_format(body)
    field = next((field for field in sorted(CONSTRAINT_FIELDS & body.keys()) if body.has_value(field)), "")
    dialect_format = _locate_dialect_format(dialect, body)
    if dialect_format is None:
        return None if output is None else LocatedFormat(output, field)
    if output is not None:
        raise _conflict(dialect_format.path, field)
    return dialect_format


def value_path(located: LocatedFormat, body: Body) -> str:
    """The path of the schema, pattern, ... in a located format."""
    match located.path:
        case "response_format":
            return response_format_value_path(body[located.path])
        case "structured_outputs":
            kind = output_kind(located.output)
            return f"{located.path}.{'json' if kind == 'json_schema' else kind}"
        case "text.format" | "output_config.format" | "output_format" if isinstance(located.output, JsonSchema):
            return f"{located.path}.schema"
        case _:
            return located.path


def _locate_in_sampling_params(body: Body) -> LocatedFormat | None:
    params = _decode_object(as_raw(body.get("sampling_params", Raw(b"{}"))))
    structured_outputs = params.get("structured_outputs", NULL)
    if structured_outputs == NULL:
        return None
    found = read_structured_outputs(msgspec.json.decode(structured_outputs), "sampling_params.structured_outputs")
    if len(found) > 1:
        raise _conflict(found[0][0], found[1][0])
    return LocatedFormat(found[0][1], found[0][0]) if found else None


def _locate_dialect_format(dialect: str, body: Body) -> LocatedFormat | None:
    match dialect:
        case "openai_responses":
            text: dict[str, Any] = body.value("text") or {}
            return _read_flat_format(text.get("format"), "text.format")
        case "anthropic_messages":
            config: dict[str, Any] = body.value("output_config") or {}
            if config.get("format") is None:
                return _read_flat_format(body.value("output_format"), "output_format")
            if body.has_value("output_format"):
                raise _conflict("output_config.format", "output_format")
            return _read_flat_format(config["format"], "output_config.format")
        case "gemini":
            return _read_gemini_format(body)
        case "tensorzero_inference":
            if body.has_value("output_schema"):
                strict = True if body.value("json_mode") == "strict" else None
                return LocatedFormat(JsonSchema(as_raw(body["output_schema"]), "output", strict=strict), "output_schema")
            return LocatedFormat(JsonObject(), "json_mode") if body.value("json_mode") == "on" else None
        case _:
            if not body.has_value("response_format"):
                return None
            output = read_response_format(body["response_format"], {})
            if output is None and _decode_object(as_raw(body["response_format"]))["type"] != Raw(b'"text"'):
                raise InvalidRequest("`response_format` has an unknown form.", param="response_format")
            return None if output is None else LocatedFormat(output, "response_format", _is_openai_format(output, body["response_format"]))


def _read_gemini_format(body: Body) -> LocatedFormat | None:
    """Google's format: a media type, and a schema of either kind in a field of its own."""
    config: dict[str, Any] = body.value("generationConfig") or {}
    media_type = config.get("responseMimeType")
    for field in ("responseJsonSchema", "responseSchema"):
        schema, path = config.get(field), f"generationConfig.{field}"
        if schema is None:
            continue
        if media_type == "text/x.enum":
            return LocatedFormat(Choice(tuple(_enum_of(schema, path))), path)
        raw = Raw(msgspec.json.encode(schema))
        return LocatedFormat(JsonSchema(read_openapi_schema(raw, path) if field == "responseSchema" else raw), path)
    path = "generationConfig.responseMimeType"
    if media_type in (None, "", "text/plain"):
        return None
    if media_type == "application/json":
        return LocatedFormat(JsonObject(), path)
    raise InvalidRequest(f"`{path}` may be text/plain, application/json, or text/x.enum with a schema, not {media_type!r:.60}.", param=path)


def _enum_of(schema: Any, path: str) -> list[str]:
    match schema:
        case {"enum": [*options]} if options and all(isinstance(each, str) for each in options):
            return options
        case _:
            raise InvalidRequest(f"`{path}.enum` must be a list of texts for text/x.enum.", param=f"{path}.enum")


def _read_flat_format(value: Any, path: str) -> LocatedFormat | None:
    """A format with its schema beside its type, as in Responses and Messages."""
    match value:
        case {"type": "json_schema", "schema": {} | bool() as schema}:
            name, strict = value.get("name"), value.get("strict")
            return LocatedFormat(JsonSchema(Raw(msgspec.json.encode(schema)), name, value.get("description"), strict), path)
        case {"type": "json_object"}:
            return LocatedFormat(JsonObject(), path)
        case {"type": "json_schema"}:
            raise InvalidRequest(f"`{path}.schema` is missing.", param=f"{path}.schema")
        case _:
            return None


def _is_openai_format(output: OutputFormat, response_format: Any) -> bool:
    fields = _decode_object(as_raw(response_format))
    match output:
        case JsonSchema():
            return "json_schema" in fields
        case JsonObject():
            return fields.get("type") == Raw(b'"json_object"')
        case _:
            return False


def _conflict(first: str, second: str) -> InvalidRequest:
    return InvalidRequest(f"`{first}` and `{second}` both constrain the answer: send one of them.", param=second)
