"""JSON schemas as llama.cpp's converters take them, and whether they hold an answer to all that a schema says.

Both pass over keywords that they do not know, or not in that place, without a word to the caller: multipleOf, not, if, uniqueItems,
contains, minProperties, patternProperties, bounds of numbers that are no integers, a length beside a pattern, anything beside a $ref.
Seen on llama.cpp b11549 (xllamacpp 2026.10) and llama-cpp-python 0.3.36, in 2026-11.
"""

from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.engines.llamacpp_patterns import write_length, write_pattern
from providers.errors import Unsupported
from providers.guided.heeded import SAYS_NOTHING, fits

_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})


class Converter(Struct, frozen=True):
    """Which of them converts. `bounds`: it obeys those of integers. `strings`: its own rule for free strings is JSON's."""

    bounds: bool
    strings: bool


CPP = Converter(bounds=True, strings=True)
PYTHON = Converter(bounds=False, strings=False)


class Written(Struct, frozen=True):
    """`obeyed`: an answer that the engine's grammar allows is valid by the whole schema. `said`: every pattern in it could be said."""

    schema: Any
    obeyed: bool
    said: bool


def write_schema(schema: Raw, converter: Converter) -> Written:
    """A pattern that cannot be said is left out: what the engines make of one is worse than nothing."""
    writer = _Writer(converter)
    told = writer.write(msgspec.json.decode(schema))
    return Written(told, writer.obeyed, writer.said)


def as_object(schema: Raw) -> Raw:
    """Of a schema that is no object neither makes what it means. Raises Unsupported for `false`, which nothing is valid by."""
    said = bytes(schema).strip()
    if said == b"false":
        raise Unsupported("no answer is valid by the schema `false`.")
    return Raw(b"{}") if said == b"true" else schema


class _Writer:
    def __init__(self, converter: Converter) -> None:
        self._converter = converter
        self.obeyed = True
        self.said = True

    def write(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            self.obeyed = False
            return schema
        schema = cast("dict[str, Any]", schema)
        told = {key: self._within(key, value) for key, value in schema.items()}
        if not self._converter.strings and told.get("type") == "string" and not told.keys() & {"pattern", "format", "enum", "const"}:
            self._bound_string(told)
        elif isinstance(told.get("pattern"), str):
            self._bend_pattern(told)
        asks = {key: value for key, value in schema.items() if key not in SAYS_NOTHING}
        self.obeyed = self.obeyed and self._is_obeyed(asks)
        return told

    def _within(self, key: str, value: Any) -> Any:
        match key, value:
            case "properties" | "patternProperties" | "$defs" | "definitions", {}:
                return {name: self.write(inner) for name, inner in value.items()}
            case "anyOf" | "oneOf" | "allOf" | "prefixItems", [*_]:
                return [self.write(inner) for inner in value]
            case "items" | "additionalProperties", {}:
                return self.write(value)
            case _:
                return value

    def _bend_pattern(self, told: dict[str, Any]) -> None:
        try:
            told["pattern"] = write_pattern(told["pattern"])
        except Unsupported:
            del told["pattern"]
            self.obeyed = self.said = False

    def _bound_string(self, told: dict[str, Any]) -> None:
        """A free string is said as a pattern, which holds no control characters as they are."""
        try:
            told["pattern"] = write_length(told.pop("minLength", 0), told.pop("maxLength", None))
        except Unsupported:
            self.obeyed = False

    def _is_obeyed(self, asks: dict[str, Any]) -> bool:
        match asks:
            case {"$ref": str(place), **rest}:
                return not rest and place.startswith("#")
            case {"enum": [*values], **rest} if values:
                return fits(values, rest)
            case {"const": value, **rest}:
                return fits([value], rest)
            case {"anyOf": [*_], **rest}:
                return not rest
            case {"type": [*kinds], **rest}:
                return (
                    not rest
                    and all(self._is_obeyed({"type": kind}) for kind in kinds)
                    and (self._converter.strings or "string" not in kinds)
                )
            case {"type": "object", **rest}:
                return self._is_obeyed_object(rest)
            case {"type": "array", **rest}:
                return self._is_obeyed_array(rest)
            case {"type": "string", **rest}:
                return self._is_obeyed_string(rest)
            case {"type": "integer", **rest}:
                return rest.keys() <= (_BOUNDS if self._converter.bounds else frozenset[str]())
            case {"type": "number" | "boolean" | "null", **rest}:
                return not rest
            case _:
                return not asks and self._converter.strings

    def _is_obeyed_object(self, rest: dict[str, Any]) -> bool:
        named: dict[str, Any] = rest.get("properties") or {}
        others = rest.get("additionalProperties", False if named else None)
        return (
            rest.keys() <= {"properties", "required", "additionalProperties"}
            and set(rest.get("required") or ()) <= named.keys()
            and (self._converter.strings or others is False)
        )

    def _is_obeyed_array(self, rest: dict[str, Any]) -> bool:
        if rest.keys() == {"prefixItems"}:
            return True
        return rest.keys() <= {"items", "minItems", "maxItems"} and (isinstance(rest.get("items"), dict) or self._converter.strings)

    def _is_obeyed_string(self, rest: dict[str, Any]) -> bool:
        match rest:
            case {"pattern": _, **others}:
                return not others
            case {"format": str(format), **others}:
                return not others and format in _FORMATS
            case _:
                return rest.keys() <= {"minLength", "maxLength"}
