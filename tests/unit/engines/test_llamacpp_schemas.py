"""Schemas for llama.cpp's converters: patterns keep their meaning, and a schema with an ignored keyword is not called enforced."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.errors import Unsupported
from providers.engines.llamacpp.schema_patterns import write_length_pattern, write_schema_pattern
from providers.engines.llamacpp.schemas import LLAMACPP_CONVERTER, LLAMACPP_PYTHON_CONVERTER, convert_schema
from tests.support.strategies.chat_strategies import bounded

PATTERNS = [
    "ab",
    "^a",
    "b$",
    "^a.c$",
    r"^\d{2,}$",
    r"\w@\w",
    r"^[^a-c]+$",
    '"',
    r"\\",
    r"^\n?$",
    "^$",
    "",
    "^a$|^bc?$",
    "(a|b){2}-",
    "^é|[語🜁]",
]
# Characters of a JSON string that patterns cover. Control characters, which JSON writes as codes, are mostly not covered.
TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs"))) | st.text(st.sampled_from('abc-1@"\\\n\té語🜁'), max_size=6)


def escaped_in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


@pytest.mark.parametrize("pattern", PATTERNS)
@bounded
@given(text=TEXTS)
def test_schema_pattern_matches_escaped_json_exactly_as_the_plain_text(pattern: str, text: str) -> None:
    found = re.search(pattern.replace("$", r"\Z"), text, re.ASCII) is not None
    assert (re.fullmatch(write_schema_pattern(pattern), escaped_in_json(text)) is not None) is found


@bounded
@given(text=TEXTS, min_length=st.integers(0, 4), extra=st.none() | st.integers(0, 4))
def test_string_length_counts_characters_and_not_their_escapes(text: str, min_length: int, extra: int | None) -> None:
    max_length = None if extra is None else min_length + extra
    fits = len(text) >= min_length and (max_length is None or len(text) <= max_length)
    assert (re.fullmatch(write_length_pattern(min_length, max_length), escaped_in_json(text)) is not None) is fits


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", r"\bword", "a^b", "^a{3000}$", r"^\x01$"])
def test_unsupported_pattern_is_refused_alone_and_removed_from_a_schema(pattern: str) -> None:
    with pytest.raises(Unsupported):
        write_schema_pattern(pattern)
    written = convert_schema(Raw(json.dumps({"type": "string", "pattern": pattern}).encode()), LLAMACPP_CONVERTER)
    assert (written.schema, written.is_enforced, written.keeps_all_patterns) == ({"type": "string"}, False, False)


ENFORCED_SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
    {"type": "string", "pattern": r"^\d+$"},
    {"type": "string", "minLength": 1, "maxLength": 3},
    {"type": "string", "format": "date", "title": "When", "description": "day"},
    {"enum": ["a", 1, None]},
    {"type": "string", "enum": ["a", "b"]},
    {"const": {"a": [1]}},
    {"anyOf": [{"type": "null"}, {"type": "number"}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}},
    {"type": ["integer", "null"]},
]
UNENFORCED_SCHEMAS: list[dict[str, Any]] = [
    {"type": "integer", "multipleOf": 7},
    {"type": "integer", "not": {"const": 1}},
    {"type": "number", "minimum": 5},
    {"type": "string", "pattern": "^a+$", "maxLength": 3},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "enum": ["a", 5]},
    {"type": "array", "items": {"type": "null"}, "uniqueItems": True},
    {"type": "array", "contains": {"const": 1}},
    {"type": "object", "patternProperties": {"^a$": {}}},
    {"type": "object", "minProperties": 1},
    {"type": "object", "properties": {"a": {}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 2}}},
    {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    {"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}},
    {"if": {"const": 1}, "then": {"const": 2}},
]


@pytest.mark.parametrize("schema", ENFORCED_SCHEMAS, ids=str)
def test_schema_that_both_converters_enforce_is_marked_as_enforced(schema: dict[str, Any]) -> None:
    for converter in (LLAMACPP_CONVERTER, LLAMACPP_PYTHON_CONVERTER):
        assert convert_schema(Raw(json.dumps(schema).encode()), converter).is_enforced


@pytest.mark.parametrize("schema", UNENFORCED_SCHEMAS, ids=str)
def test_schema_with_an_ignored_keyword_is_not_marked_as_enforced(schema: dict[str, Any]) -> None:
    for converter in (LLAMACPP_CONVERTER, LLAMACPP_PYTHON_CONVERTER):
        assert not convert_schema(Raw(json.dumps(schema).encode()), converter).is_enforced


def test_integer_bounds_and_open_objects_are_enforced_by_llamacpp_only() -> None:
    for schema in ({"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, {"type": "object"}, {}):
        raw = Raw(json.dumps(schema).encode())
        assert (convert_schema(raw, LLAMACPP_CONVERTER).is_enforced, convert_schema(raw, LLAMACPP_PYTHON_CONVERTER).is_enforced) == (
            True,
            False,
        )


def test_length_limited_string_is_sent_to_llama_cpp_python_as_a_pattern() -> None:
    """llama-cpp-python's own rule allows raw control characters in a string."""
    written = convert_schema(Raw(b'{"type":"string","maxLength":3}'), LLAMACPP_PYTHON_CONVERTER)
    assert (written.schema, written.is_enforced) == ({"type": "string", "pattern": write_length_pattern(0, 3)}, True)
