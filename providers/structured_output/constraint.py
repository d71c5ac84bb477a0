"""What constrains the answer to an ask, wherever the caller's dialect says it: an output, and the schemas of strict tools."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat, output_kind
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.structured_output.read_constraint_fields import (
    CONSTRAINT_FIELDS,
    read_output_format,
    read_structured_outputs,
    read_whitespace,
)
from providers.structured_output.read_response_format import read_response_format, response_format_value_path
from providers.structured_output.regex_ast import is_json_whitespace
from providers.structured_output.regexes import unrolled_size


class Constraint(Struct, frozen=True):
    """`field`: the caller's path of `output`; `place`: of the schema, the pattern ... within. `plain`: it stands in response_format, in the
    form that OpenAI gave that.

    `tools`: the paths and schemas of the parameters of tools that are to be strict. `spacing`: the white space that the JSON of `output`
    may hold, as a regex, and the caller's path for it; None: whatever JSON allows. `loose`: of `field` and the paths of `tools` those whose
    schemas say what engines' grammars are not known to hold to (heeded.py). `slow`: to say it otherwise may take some milliseconds.
    """

    output: OutputFormat | None
    field: str
    is_openai_format: bool = False
    strict_tools: tuple[tuple[str, Raw], ...] = ()
    whitespace: tuple[str, str] | None = None
    uncovered_paths: frozenset[str] = frozenset()
    value_path: str = ""
    is_slow_to_convert: bool = False


_MAX_WHITESPACE_LENGTH = 1_000
_SLOW_MIN_BYTES = 10_000
_ENGINE_FIELDS = CONSTRAINT_FIELDS | {"guided_whitespace_pattern"}

# Where each dialect may say one, at the top level of its asks; beside them the words of engines, which all may send.
CONSTRAINT_FIELDS_BY_DIALECT: Mapping[str, frozenset[str]] = {
    "openai_chat": _ENGINE_FIELDS | {"response_format"},
    "openai_completions": _ENGINE_FIELDS | {"response_format"},
    "openai_responses": _ENGINE_FIELDS | {"text"},
    "anthropic_messages": _ENGINE_FIELDS | {"output_config", "output_format"},
    "vllm_generate": frozenset({"sampling_params"}),
}

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def read_constraint(dialect: str, body: Body) -> Constraint | None:
    """None: nothing constrains the answer. Raises Malformed for two constraints at once, or one that cannot be read."""
    strict_tools = tuple(_read_strict_tools(body)) if dialect != "vllm_generate" else ()
    found = _read_any_format(dialect, body)
    if found is None:
        return Constraint(None, "tools", strict_tools=strict_tools) if strict_tools else None
    output, field, is_openai_format = found
    whitespace = None if dialect == "vllm_generate" or not isinstance(output, JsonSchema | JsonObject) else _read_valid_whitespace(body)
    is_slow_to_convert = (
        whitespace is not None
        or sum(len(bytes(as_raw(body[key]))) for key in CONSTRAINT_FIELDS_BY_DIALECT[dialect] & body.keys()) > _SLOW_MIN_BYTES
    )
    return Constraint(
        output,
        field,
        is_openai_format,
        strict_tools,
        whitespace,
        value_path=_value_path(output, field, body),
        is_slow_to_convert=is_slow_to_convert,
    )


def _value_path(output: OutputFormat, field: str, body: Body) -> str:
    match field:
        case "response_format":
            return response_format_value_path(body[field])
        case "structured_outputs":
            kind = output_kind(output)
            return f"{field}.{'json' if kind == 'json_schema' else kind}"
        case "text.format" | "output_config.format" | "output_format" if isinstance(output, JsonSchema):
            return f"{field}.schema"
        case _:
            return field


def _read_valid_whitespace(body: Body) -> tuple[str, str] | None:
    whitespace = read_whitespace(body)
    if whitespace is None:
        return None
    path, pattern = whitespace
    if len(pattern) > _MAX_WHITESPACE_LENGTH or unrolled_size(pattern) > _MAX_WHITESPACE_LENGTH:
        raise InvalidRequest(f"`{path}` stands for more than {_MAX_WHITESPACE_LENGTH} characters of white space in one place.", param=path)
    try:
        if is_json_whitespace(pattern):
            return whitespace
    except Unsupported as reason:
        raise InvalidRequest(f"`{path}` cannot be obeyed: {reason.message}", param=path) from None
    raise InvalidRequest(
        f"`{path}` must be a regex of spaces, tabs and line ends alone, for nothing else may stand within JSON.", param=path
    )


def _read_any_format(dialect: str, body: Body) -> tuple[OutputFormat, str, bool] | None:
    if dialect == "vllm_generate":
        params = _decode_object(as_raw(body.get("sampling_params", Raw(b"{}"))))
        structured_outputs = params.get("structured_outputs", NULL)
        found = (
            []
            if structured_outputs == NULL
            else read_structured_outputs(msgspec.json.decode(structured_outputs), "sampling_params.structured_outputs")
        )
        if len(found) > 1:
            raise _conflict(found[0][0], found[1][0])
        return (found[0][1], found[0][0], False) if found else None
    output = read_output_format(body)
    field = next((word for word in sorted(CONSTRAINT_FIELDS & body.keys()) if body.has_value(word)), "")
    dialect_format = _read_dialect_format(dialect, body)
    if dialect_format is None:
        return None if output is None else (output, field, False)
    if output is not None:
        raise _conflict(dialect_format[1], field)
    return dialect_format


def _conflict(first: str, second: str) -> InvalidRequest:
    return InvalidRequest(f"`{first}` and `{second}` both constrain the answer: send one of them.", param=second)


def _read_dialect_format(dialect: str, body: Body) -> tuple[OutputFormat, str, bool] | None:
    """In the words that the dialect itself has for it."""
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
        case _:
            if not body.has_value("response_format"):
                return None
            output = read_response_format(body["response_format"], {})
            if output is None and _decode_object(as_raw(body["response_format"]))["type"] != Raw(b'"text"'):
                raise InvalidRequest("`response_format` is of no form that is known here.", param="response_format")
            return None if output is None else (output, "response_format", _is_openai_format(output, body["response_format"]))


def _read_flat_format(value: Any, field: str) -> tuple[OutputFormat, str, bool] | None:
    """A schema beside its type, as Responses and Messages say it."""
    match value:
        case {"type": "json_schema", "schema": {} | bool() as schema}:
            name, strict = value.get("name"), value.get("strict")
            return JsonSchema(Raw(msgspec.json.encode(schema)), name, value.get("description"), strict), field, False
        case {"type": "json_object"}:
            return JsonObject(), field, False
        case {"type": "json_schema"}:
            raise InvalidRequest(f"`{field}.schema` is missing.", param=f"{field}.schema")
        case _:
            return None


def _is_openai_format(output: OutputFormat, value: Any) -> bool:
    format_fields = _decode_object(as_raw(value))
    match output:
        case JsonSchema():
            return "json_schema" in format_fields
        case JsonObject():
            return format_fields.get("type") == Raw(b'"json_object"')
        case _:
            return False


def _read_strict_tools(body: Body) -> list[tuple[str, Raw]]:
    """Tools of chat, of Responses and of Messages; what is none of these is passed over here, and told by its dialect."""
    raw = body.get("tools", NULL)
    if raw == NULL:
        return []
    found: list[tuple[str, Raw]] = []
    try:
        for index, tool in enumerate(_decode_tools(as_raw(raw))):
            path = f"tools[{index}]"
            if "function" in tool:
                tool, path = _decode_object(tool["function"]), f"{path}.function"
            if tool.get("strict") == Raw(b"true"):
                name = "input_schema" if "input_schema" in tool else "parameters"
                if tool.get(name, NULL) != NULL:
                    found.append((f"{path}.{name}", tool[name]))
    except DECODE_ERRORS:
        return []
    return found
