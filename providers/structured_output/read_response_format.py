"""Reads response_format, in the forms of OpenAI and of engines."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw, read_extra_fields
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag

_FIELD = "response_format"

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def read_response_format(response_format: Any, extra: dict[str, Raw]) -> OutputFormat | None:
    """The output format; None for text, and for an unknown form, which goes into `extra` with unknown fields of known forms.

    Besides OpenAI's own forms: LMDeploy (regex_schema), TGI (json, regex), llama.cpp (json_object with a schema) and SGLang (a schema
    beside its type, as in Responses).
    """
    fields = _decode_object(as_raw(response_format))
    kind = msgspec.json.decode(fields["type"])
    match kind:
        case "json_schema" if "json_schema" in fields or "value" in fields:
            inner_key = "json_schema" if "json_schema" in fields else "value"
            extra |= read_extra_fields(fields, _FIELD, "type", inner_key)
            return _read_schema(_decode_object(fields[inner_key]), f"{_FIELD}.json_schema", extra)
        case "json_schema" if "schema" in fields:
            return _read_schema({key: value for key, value in fields.items() if key != "type"}, _FIELD, extra)
        case "json_schema":
            raise InvalidRequest(f"`{_FIELD}.json_schema` is missing.", param=f"{_FIELD}.json_schema")
        case "json_object" | "json" if "schema" in fields or "value" in fields:
            inner_key = "schema" if "schema" in fields else "value"
            extra |= read_extra_fields(fields, _FIELD, "type", inner_key)
            return JsonSchema(fields[inner_key])
        case "json_object":
            extra |= read_extra_fields(fields, _FIELD, "type")
            return JsonObject()
        case "structural_tag":
            return StructuralTag(bytes(as_raw(response_format)).decode())
        case "text" if not read_extra_fields(fields, _FIELD, "type"):
            return None
        case "regex_schema" | "regex":
            inner_key = "value" if kind == "regex" else kind
            if inner_key in fields and not read_extra_fields(fields, _FIELD, "type", inner_key):
                return Regex(_string(fields[inner_key], f"{_FIELD}.{inner_key}"))
        case _:
            pass
    extra[_FIELD] = as_raw(response_format)
    return None


def response_format_value_path(response_format: Any) -> str:
    """The path of the schema or pattern in a response_format; the complete field for a structural tag."""
    fields = _decode_object(as_raw(response_format))
    if fields.get("type") == Raw(b'"structural_tag"'):
        return _FIELD
    inner_key = next((key for key in ("json_schema", "schema", "regex_schema", "value") if key in fields), None)
    if inner_key is None:
        return _FIELD
    is_wrapped = inner_key == "json_schema" or (inner_key == "value" and fields.get("type") == Raw(b'"json_schema"'))
    return f"{_FIELD}.{inner_key}.schema" if is_wrapped else f"{_FIELD}.{inner_key}"


def _read_schema(fields: dict[str, Raw], path: str, extra: dict[str, Raw]) -> OutputFormat:
    if "schema" not in fields:
        raise InvalidRequest(f"`{path}.schema` is missing.", param=f"{path}.schema")
    extra |= read_extra_fields(fields, path, "schema", "name", "description", "strict")
    name, description, strict = (msgspec.json.decode(fields.get(key, b"null")) for key in ("name", "description", "strict"))
    return JsonSchema(fields["schema"], name, description, strict)


def _string(raw: Raw, path: str) -> str:
    value = msgspec.json.decode(raw)
    if not isinstance(value, str):
        raise InvalidRequest(f"`{path}` must be a string.", param=path)
    return value
