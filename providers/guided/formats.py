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
    """Besides OpenAI's own forms those of LMDeploy (regex_schema), TGI (json, regex) and llama.cpp (json_object with a schema).

    `extra` gets what has no name in the meaning.
    """
    told = _object(as_raw(said))
    kind = msgspec.json.decode(told["type"])
    match kind:
        case "json_schema" if "json_schema" in told or "value" in told:
            inside = "json_schema" if "json_schema" in told else "value"
            extra |= rest_of(told, _FORMAT, "type", inside)
            return _read_schema(told[inside], extra)
        case "json_schema" if not rest_of(told, _FORMAT, "type"):
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


def _read_schema(raw: Raw, extra: dict[str, Raw]) -> Output:
    named = _object(raw)
    if "schema" not in named:
        raise Malformed(f"`{_FORMAT}.json_schema.schema` is missing.", param=f"{_FORMAT}.json_schema.schema")
    extra |= rest_of(named, f"{_FORMAT}.json_schema", "schema", "name", "description", "strict")
    name, description, strict = (msgspec.json.decode(named.get(key, b"null")) for key in ("name", "description", "strict"))
    return JsonSchema(named["schema"], name, description, strict)


def _string(raw: Raw, path: str) -> str:
    value = msgspec.json.decode(raw)
    if not isinstance(value, str):
        raise Malformed(f"`{path}` must be a string.", param=path)
    return value
