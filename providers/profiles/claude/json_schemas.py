"""Fits a JSON schema to the subset that Anthropic compiles: some keywords can be dropped and validated later, others leave no schema.

The subset: https://platform.claude.com/docs/en/build-with-claude/structured-outputs (JSON schema limitations, complexity limits), and
lib/_parse/_transform.py of its SDK 2.11, both read 2026-11; recorded 400s for strict tools: docs/sources.md#anthropic.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS
from providers.profiles.claude.schema_references import find_reference_error
from providers.structured_output.grammar_coverage import ANNOTATION_KEYWORDS

MAX_STRICT_TOOLS, MAX_OPTIONAL_PROPERTIES, MAX_UNIONS = 20, 24, 16
_MAX_DEPTH = 48

_JSON_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_SUPPORTED_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_SUPPORTED_KEYWORDS = frozenset({"type", "title", "description", "default", "$schema", "enum", "const", "required"})
_NAMED_SCHEMA_KEYWORDS = frozenset({"properties", "$defs", "definitions"})
_CONSTRAINING_KEYWORDS = frozenset({"type", "enum", "const", "anyOf", "allOf", "oneOf", "properties", "$ref"})
# Without these the rest of the schema would mean something else: no subset is possible.
_UNSUPPORTED_KEYWORDS = frozenset({"patternProperties", "prefixItems", "$dynamicRef", "$recursiveRef"})
# Look-around, back-references, word boundaries, other escaped classes, and repetitions of 100 or more.
_UNSUPPORTED_REGEX = re.compile(r"\(\?[=!<]|\\[1-9bBkpP]|\{\d{3,}|,\d{3,}\}")


class SchemaSubset(Struct, frozen=True):
    """The part of a schema that Anthropic supports. Its last two fields say how much of Anthropic's limits the schema uses."""

    schema: Raw | None  # what is sent to Anthropic; None: it cannot compile any part
    dropped: tuple[str, ...]  # what it does not support, in the order found
    optional_properties: int = 0
    unions: int = 0

    @property
    def is_lossless(self) -> bool:
        return self.schema is not None and not self.dropped


class _Inexpressible(Exception):
    """The schema cannot be reduced to the subset; the message names what prevents it."""


def fit_schema(schema: Raw, *, closes_objects: bool) -> SchemaSubset:
    """Fits a schema to what Anthropic supports.

    With `closes_objects`, an object without additionalProperties allows no more properties, as in OpenAI's strict schemas.
    """
    fitter = _SchemaFitter(closes_objects=closes_objects)
    try:
        decoded = msgspec.json.decode(schema)
        written = fitter.fit_root(decoded)
    except _Inexpressible as reason:
        return SchemaSubset(None, (str(reason), *fitter.dropped))
    except DECODE_ERRORS:
        return SchemaSubset(None, ("a schema nested too deeply",))
    exceeded = f"more than {MAX_OPTIONAL_PROPERTIES} optional properties" if fitter.optional_properties > MAX_OPTIONAL_PROPERTIES else None
    exceeded = f"more than {MAX_UNIONS} unions" if fitter.unions > MAX_UNIONS else exceeded
    if exceeded is not None:
        return SchemaSubset(None, (exceeded, *fitter.dropped), fitter.optional_properties, fitter.unions)
    return SchemaSubset(Raw(msgspec.json.encode(written)), tuple(dict.fromkeys(fitter.dropped)), fitter.optional_properties, fitter.unions)


class _SchemaFitter:
    def __init__(self, *, closes_objects: bool) -> None:
        self.dropped: list[str] = []
        self.optional_properties = 0
        self.unions = 0
        self._closes_objects = closes_objects

    def fit_root(self, schema: Any) -> dict[str, Any]:
        reference_error = find_reference_error(cast("dict[str, Any]", schema)) if isinstance(schema, dict) else None
        if reference_error is not None:
            raise _Inexpressible(reference_error)
        return self._fit_schema(schema, 0)

    def _fit_schema(self, schema: Any, depth: int) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            raise _Inexpressible("a schema nested too deeply")
        if not isinstance(schema, dict) or _CONSTRAINING_KEYWORDS.isdisjoint(cast("dict[str, Any]", schema)):
            raise _Inexpressible("a schema that allows any value")
        source = cast("dict[str, Any]", schema)
        inexpressible = min(_UNSUPPORTED_KEYWORDS & source.keys(), default=None)
        if inexpressible is not None or ("oneOf" in source and "anyOf" in source):
            raise _Inexpressible(inexpressible or "oneOf beside anyOf")
        written: dict[str, Any] = {}
        dropped: dict[str, Any] = {}
        for key, value in source.items():
            if key in _NAMED_SCHEMA_KEYWORDS and isinstance(value, dict):
                written[key] = {name: self._fit_schema(inner, depth + 1) for name, inner in cast("dict[str, Any]", value).items()}
            elif key in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
                written["allOf" if key == "allOf" else "anyOf"] = [self._fit_schema(inner, depth + 1) for inner in cast("list[Any]", value)]
                self.dropped += ["oneOf"] if key == "oneOf" else []
            elif key == "items":
                written[key] = self._fit_schema(value, depth + 1)
            elif key == "$ref" or key in _SUPPORTED_KEYWORDS or _is_supported(key, value):
                written[key] = value
            elif key != "additionalProperties" and key not in ANNOTATION_KEYWORDS:
                dropped[key] = value
        self._check_types(source, written)
        self._count_against_limits(written)
        return self._keep_reference_alone(written) if "$ref" in written else self._describe_dropped(written, dropped)

    def _check_types(self, source: Mapping[str, Any], written: dict[str, Any]) -> None:
        types = _declared_types(source)
        if not types <= _JSON_TYPES:
            raise _Inexpressible("an unknown type")
        if "array" in types and "items" not in written:
            raise _Inexpressible("an array of any values")
        if "object" in types:
            if source.get("additionalProperties", not self._closes_objects) is not False:
                raise _Inexpressible("additionalProperties other than false")
            written["additionalProperties"] = False
        if any("$ref" in each for each in written.get("allOf", ())):
            raise _Inexpressible("allOf with $ref")
        enum_values: Any = written.get("enum")
        values = [source.get("const"), *(cast("list[Any]", enum_values) if isinstance(enum_values, list) else [])]
        if any(isinstance(each, dict | list) for each in values):
            raise _Inexpressible("an enum or const of objects or arrays")

    def _count_against_limits(self, written: Mapping[str, Any]) -> None:
        if "anyOf" in written or isinstance(written.get("type"), list):
            self.unions += 1
        self.optional_properties += len(written.get("properties", {}).keys() - set(written.get("required") or ()))

    def _keep_reference_alone(self, written: dict[str, Any]) -> dict[str, Any]:
        """Drops the keywords beside a $ref: it is not documented that they are enforced."""
        kept = {key: value for key, value in written.items() if key in ("$ref", "$schema", "$defs", "definitions")}
        self.dropped += sorted(written.keys() - kept.keys() - ANNOTATION_KEYWORDS)
        return kept

    def _describe_dropped(self, written: dict[str, Any], dropped: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the dropped keywords to the description, for the model to read."""
        if dropped:
            self.dropped += dropped
            dropped_json = msgspec.json.encode(dropped).decode()
            written["description"] = f"{written['description']}\n\n{dropped_json}" if written.get("description") else dropped_json
        return written


def _is_supported(key: str, value: Any) -> bool:
    match key:
        case "minItems":
            return value in (0, 1)
        case "format":
            return value in _SUPPORTED_FORMATS
        case "pattern":
            return isinstance(value, str) and _UNSUPPORTED_REGEX.search(value) is None
        case _:
            return False


def _declared_types(schema: Mapping[str, Any]) -> frozenset[str]:
    declared = schema.get("type")
    types: list[Any] = cast("list[Any]", declared) if isinstance(declared, list) else [] if declared is None else [declared]
    return frozenset(map(str, types)) | ({"object"} if "properties" in schema else frozenset[str]())
