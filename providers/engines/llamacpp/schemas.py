"""JSON schemas rewritten for llama.cpp's converters, and whether these enforce all of a schema.

Both converters ignore keywords that they do not know, or not in that place, without an error: multipleOf, not, if, uniqueItems,
contains, minProperties, patternProperties, bounds of numbers other than integers, a length beside a pattern, anything beside a $ref.
Observed on llama.cpp b11549 (xllamacpp 2026.10) and llama-cpp-python 0.3.36, in 2026-11.
"""

from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import Unsupported
from providers.engines.llamacpp.schema_patterns import write_length_pattern, write_schema_pattern
from providers.structured_output.grammar_coverage import ANNOTATION_KEYWORDS, values_fit_type

_BOUND_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COVERED_FORMATS = frozenset({"date", "time", "date-time", "uuid"})


class SchemaConverter(Struct, frozen=True):
    """One of the two converters."""

    enforces_integer_bounds: bool
    allows_free_strings: bool  # whether its rule for strings without keywords is JSON's


LLAMACPP_CONVERTER = SchemaConverter(enforces_integer_bounds=True, allows_free_strings=True)
LLAMACPP_PYTHON_CONVERTER = SchemaConverter(enforces_integer_bounds=False, allows_free_strings=False)


class ConvertedSchema(Struct, frozen=True):
    """A schema that the engine can make a grammar of."""

    schema: Any
    is_enforced: bool  # whether all that the engine's grammar allows is valid by the original schema
    keeps_all_patterns: bool  # whether none was left out


def convert_schema(schema: Raw, converter: SchemaConverter) -> ConvertedSchema:
    """Rewrites a schema. A pattern that cannot be expressed is left out, for the engines would misread it or end over it."""
    writer = _SchemaWriter(converter)
    converted = writer.write(msgspec.json.decode(schema))
    return ConvertedSchema(converted, writer.is_enforced, writer.keeps_all_patterns)


class _SchemaWriter:
    def __init__(self, converter: SchemaConverter) -> None:
        self._converter = converter
        self.is_enforced = True
        self.keeps_all_patterns = True

    def write(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            self.is_enforced = False
            return schema
        schema = cast("dict[str, Any]", schema)
        converted = {key: self._write_subschemas(key, value) for key, value in schema.items()}
        if (
            not self._converter.allows_free_strings
            and converted.get("type") == "string"
            and not converted.keys() & {"pattern", "format", "enum", "const"}
        ):
            self._write_string_length(converted)
        elif isinstance(converted.get("pattern"), str):
            self._convert_pattern(converted)
        keywords = {key: value for key, value in schema.items() if key not in ANNOTATION_KEYWORDS}
        self.is_enforced = self.is_enforced and self._is_covered(keywords)
        return converted

    def _write_subschemas(self, keyword: str, value: Any) -> Any:
        match keyword, value:
            case "properties" | "patternProperties" | "$defs" | "definitions", {}:
                return {name: self.write(subschema) for name, subschema in value.items()}
            case "anyOf" | "oneOf" | "allOf" | "prefixItems", [*_]:
                return [self.write(inner) for inner in value]
            case "items" | "additionalProperties", {}:
                return self.write(value)
            case _:
                return value

    def _convert_pattern(self, converted: dict[str, Any]) -> None:
        try:
            converted["pattern"] = write_schema_pattern(converted["pattern"])
        except Unsupported:
            del converted["pattern"]
            self.is_enforced = self.keeps_all_patterns = False

    def _write_string_length(self, converted: dict[str, Any]) -> None:
        """Writes a free string as a pattern, in which control characters are escaped."""
        try:
            converted["pattern"] = write_length_pattern(converted.pop("minLength", 0), converted.pop("maxLength", None))
        except Unsupported:
            self.is_enforced = False

    def _is_covered(self, keywords: dict[str, Any]) -> bool:
        match keywords:
            case {"$ref": str(ref), **rest}:
                return not rest and ref.startswith("#")
            case {"enum": [*values], **rest} if values:
                return values_fit_type(values, rest)
            case {"const": value, **rest}:
                return values_fit_type([value], rest)
            case {"anyOf": [*_], **rest}:
                return not rest
            case {"type": [*kinds], **rest}:
                return (
                    not rest
                    and all(self._is_covered({"type": kind}) for kind in kinds)
                    and (self._converter.allows_free_strings or "string" not in kinds)
                )
            case {"type": "object", **rest}:
                return self._is_object_covered(rest)
            case {"type": "array", **rest}:
                return self._is_array_covered(rest)
            case {"type": "string", **rest}:
                return self._is_string_covered(rest)
            case {"type": "integer", **rest}:
                return rest.keys() <= (_BOUND_KEYWORDS if self._converter.enforces_integer_bounds else frozenset[str]())
            case {"type": "number" | "boolean" | "null", **rest}:
                return not rest
            case _:
                return not keywords and self._converter.allows_free_strings

    def _is_object_covered(self, keywords: dict[str, Any]) -> bool:
        properties: dict[str, Any] = keywords.get("properties") or {}
        additional = keywords.get("additionalProperties", False if properties else None)
        return (
            keywords.keys() <= {"properties", "required", "additionalProperties"}
            and set(keywords.get("required") or ()) <= properties.keys()
            and (self._converter.allows_free_strings or additional is False)
        )

    def _is_array_covered(self, keywords: dict[str, Any]) -> bool:
        if keywords.keys() == {"prefixItems"}:
            return True
        return keywords.keys() <= {"items", "minItems", "maxItems"} and (
            isinstance(keywords.get("items"), dict) or self._converter.allows_free_strings
        )

    def _is_string_covered(self, keywords: dict[str, Any]) -> bool:
        match keywords:
            case {"pattern": _, **others}:
                return not others
            case {"format": str(format), **others}:
                return not others and format in _COVERED_FORMATS
            case _:
                return keywords.keys() <= {"minLength", "maxLength"}
