"""The regex of a schema's JSON with the white space that its caller allows, by outlines-core.

outlines-core ignores most keywords silently (minimum, a pattern beside maxLength, uniqueItems, an additionalProperties schema, deep
references ...), so it only gets schemas of which every keyword is on the list below. There it writes what
providers/structured_output/schema_regex.py writes, except that its strings may contain JSON's short escapes. All other schemas are left to
that module. Why each keyword is on the list or not: docs/decisions/010-jsonschema-and-outlines-core.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from outlines_core import json_schema  # pyright: ignore[reportMissingTypeStubs]

from providers.structured_output.grammar_coverage import ANNOTATION_KEYWORDS, values_fit_type

build_regex = cast("Callable[[str, str], str]", json_schema.build_regex_from_schema)  # pyright: ignore[reportUnknownMemberType]
"""outlines-core's: from a schema and the regex of white space. Raises ValueError."""

_MAX_SCHEMA_CHARS = 20_000
# With references followed: writing takes time and memory for each of them.
_MAX_SUBSCHEMAS = 1_000
# Those of schema_regex.py, for which engines have room.
_MAX_PARTS = 100_000
_MAX_REGEX_LENGTH = 50_000
# It follows four, one inside another, and writes an empty object for a fifth.
_MAX_NESTED_REFS = 4
_MAX_DEPTH = 24
_REF = re.compile(r"#/(\$defs|definitions)/([A-Za-z0-9_.-]+)")
_UNCONSTRAINED_TYPES = frozenset({"string", "integer", "number", "boolean", "null"})
# It escapes these too, as Rust allows; JavaScript and others do not. And it reads integers of more than 64 bits as floats.
_UNSUITABLE_CHARACTERS = frozenset("-#&~")
_MAX_INTEGER = 2**53
# An unescaped character, or one of two escapes.
_PARTS_OF_A_CHARACTER = 3


def write_whitespace_regex(source: str, whitespace: str) -> str | None:
    """The regex of `source`, a schema that passed its check; None: it is not on the list, or its regex would be too large."""
    if len(source) > _MAX_SCHEMA_CHARS:
        return None
    schema = msgspec.json.decode(source)
    try:
        if _ListedSchema(schema, allows_whitespace=whitespace != "").count_parts(schema) > _MAX_PARTS:
            return None
        # Encoded again, so that it reads what was checked: of a key that is there twice, the last.
        regex = build_regex(msgspec.json.encode(schema).decode(), f"(?:{whitespace})" if whitespace else "")
    except (_NotListed, ValueError):
        return None
    return regex if len(regex) <= _MAX_REGEX_LENGTH else None


class _NotListed(Exception):
    """The schema has something that is not known to be written faithfully."""


class _ListedSchema:
    """Walks a schema as outlines-core does, and raises _NotListed for what is not on the list."""

    def __init__(self, root: Any, *, allows_whitespace: bool) -> None:
        self._root = root
        self._allows_whitespace = allows_whitespace
        self._count = 0

    def count_parts(self, schema: Any, depth: int = 0, refs: int = 0) -> int:
        """The parts of its regex with repetitions expanded."""
        self._count += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._count > _MAX_SUBSCHEMAS:
            raise _NotListed
        keywords = {key: value for key, value in cast("dict[str, Any]", schema).items() if key not in ANNOTATION_KEYWORDS}
        match keywords:
            case {"$ref": str(ref), **rest} if not rest:
                return self._count_ref(ref, depth, refs)
            case {"const": value, **rest}:
                return _count_literals([value], rest)
            case {"enum": [_, *_] as values, **rest}:
                return _count_literals(list(values), rest)
            case {"anyOf": [_, *_] as branches, **rest} if not rest:
                return sum(self.count_parts(branch, depth + 1, refs) for branch in branches)
            case {"type": [_, *_] as types, **rest} if not rest and _UNCONSTRAINED_TYPES.issuperset(types):
                return _PARTS_OF_A_CHARACTER * len(types)
            case {"type": "string", **rest} if rest.keys() <= {"minLength", "maxLength"}:
                return _PARTS_OF_A_CHARACTER * _count_repetitions(rest.get("minLength", 0), rest.get("maxLength"))
            case {"type": str(type_name), **rest} if not rest and type_name in _UNCONSTRAINED_TYPES:
                return _PARTS_OF_A_CHARACTER
            case {"type": "object", "properties": {**properties}, "required": [_, *_] as required, **rest} if properties:
                return self._count_object(properties, required, rest, depth, refs)
            case {"type": "object", "properties": {**properties}, **rest} if properties and not self._allows_whitespace:
                # Without a required property: where white space is allowed, an empty object has it once here and twice there.
                optional = {key: value for key, value in rest.items() if key != "required"}
                return self._count_object(properties, [], optional, depth, refs) * len(properties)
            case {"type": "array", "items": item, **rest} if rest.keys() <= {"minItems", "maxItems"} and not self._allows_whitespace:
                # With white space: it allows none before a comma here, and does in objects.
                return self.count_parts(item, depth + 1, refs) * _count_repetitions(rest.get("minItems", 0), rest.get("maxItems"))
            case _:
                raise _NotListed

    def _count_ref(self, ref: str, depth: int, refs: int) -> int:
        found = _REF.fullmatch(ref)
        if found is None or refs == _MAX_NESTED_REFS:
            raise _NotListed
        definitions: Mapping[str, Any] = self._root.get(found[1]) or {}
        return self.count_parts(definitions.get(found[2]), depth + 1, refs + 1)

    def _count_object(self, properties: Mapping[str, Any], required: Sequence[str], rest: Mapping[str, Any], depth: int, refs: int) -> int:
        # False allows no other properties; without it none are written either.
        allows_others = rest.get("additionalProperties", False) is not False
        if allows_others or rest.keys() - {"additionalProperties"} or set(required) - properties.keys():
            raise _NotListed
        if any(msgspec.json.encode(name) != f'"{name}"'.encode() for name in properties):
            raise _NotListed  # it writes names without JSON's escapes, so that one with a quote is no JSON
        return sum(_count_literal(name) + self.count_parts(value, depth + 1, refs) for name, value in properties.items())


def _count_repetitions(min_count: Any, max_count: Any) -> int:
    """A count such as 2.0 is valid, and ignored by outlines-core."""
    if type(min_count) is not int or type(max_count) not in (int, type(None)) or (max_count is not None and max_count < min_count):
        raise _NotListed
    return max(1, min_count, max_count or 0)


def _count_literals(values: list[Any], beside: Mapping[str, Any]) -> int:
    if not values_fit_type(values, beside):
        raise _NotListed
    return sum(map(_count_literal, values))


def _count_literal(value: Any) -> int:
    match value:
        case bool() | None:
            return 5
        case int() if 0 <= value <= _MAX_INTEGER:
            return 16
        case str() if _UNSUITABLE_CHARACTERS.isdisjoint(value):
            return len(value) + 2
        case _:
            raise _NotListed
