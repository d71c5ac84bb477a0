"""How the answer is to be: response_format, in OpenAI's words and in those of engines."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.errors import Malformed
from providers.guided.output import JsonObject, JsonSchema, Output, Regex, StructuralTag
from providers.rest import as_raw, rest_of

_FORMAT = "response_format"

_object = msgspec.json.Decoder(dict[str, Raw]).decode


def read_format(said: Any, extra: dict[str, Raw]) -> Output | None:
    """Besides OpenAI's own forms those of LMDeploy (regex_schema), TGI (json, regex), llama.cpp (json_object with a schema) and SGLang
    (a schema beside its type, as Responses has it).

    `extra` gets what has no name in the meaning.
    """
    told = _object(as_raw(said))
    kind = msgspec.json.decode(told["type"])
    match kind:
        case "json_schema" if "json_schema" in told or "value" in told:
            inside = "json_schema" if "json_schema" in told else "value"
            extra |= rest_of(told, _FORMAT, "type", inside)
            return _read_schema(_object(told[inside]), f"{_FORMAT}.json_schema", extra)
        case "json_schema" if "schema" in told:
            return _read_schema({key: value for key, value in told.items() if key != "type"}, _FORMAT, extra)
        case "json_schema":
            raise Malformed(f"`{_FORMAT}.json_schema` is missing.", param=f"{_FORMAT}.json_schema")
        case "json_object" | "json" if "schema" in told or "value" in told:
            inside = "schema" if "schema" in told else "value"
            extra |= rest_of(told, _FORMAT, "type", inside)
            return JsonSchema(told[inside])
        case "json_object":
            extra |= rest_of(told, _FORMAT, "type")
            return JsonObject()
        case "structural_tag":
            return StructuralTag(bytes(as_raw(said)).decode())
        case "text" if not rest_of(told, _FORMAT, "type"):
            return None
        case "regex_schema" | "regex":
            inside = "value" if kind == "regex" else kind
            if inside in told and not rest_of(told, _FORMAT, "type", inside):
                return Regex(_string(told[inside], f"{_FORMAT}.{inside}"))
        case _:
            pass
    extra[_FORMAT] = as_raw(said)
    return None


def place_of(said: Any) -> str:
    """The path of what a response_format says: a schema, a pattern, or all of a tag."""
    told = _object(as_raw(said))
    if told.get("type") == Raw(b'"structural_tag"'):
        return _FORMAT
    inside = next((key for key in ("json_schema", "schema", "regex_schema", "value") if key in told), None)
    if inside is None:
        return _FORMAT
    wrapped = inside == "json_schema" or (inside == "value" and told.get("type") == Raw(b'"json_schema"'))
    return f"{_FORMAT}.{inside}.schema" if wrapped else f"{_FORMAT}.{inside}"


def _read_schema(named: dict[str, Raw], within: str, extra: dict[str, Raw]) -> Output:
    if "schema" not in named:
        raise Malformed(f"`{within}.schema` is missing.", param=f"{within}.schema")
    extra |= rest_of(named, within, "schema", "name", "description", "strict")
    name, description, strict = (msgspec.json.decode(named.get(key, b"null")) for key in ("name", "description", "strict"))
    return JsonSchema(named["schema"], name, description, strict)


def _string(raw: Raw, path: str) -> str:
    value = msgspec.json.decode(raw)
    if not isinstance(value, str):
        raise Malformed(f"`{path}` must be a string.", param=path)
    return value
