"""JSON schemas for Claude: the schema that is sent allows all that the caller's allows, and what was left out of it is reported."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.profiles.claude.json_schemas import fit_schema
from tests.support.strategies.chat_strategies import bounded

KEYWORDS: list[tuple[Any, tuple[str, ...]]] = [
    ({"type": "integer", "minimum": 1, "multipleOf": 2}, ("minimum", "multipleOf")),
    ({"type": "array", "items": {"type": "null"}, "minItems": 2}, ("minItems",)),
    ({"type": "array", "items": {"type": "null"}, "minItems": 1}, ()),
    ({"type": "string", "format": "date"}, ()),
    ({"type": "string", "format": "regex"}, ("format",)),
    ({"type": "string", "pattern": "^[a-z]+$"}, ()),
    ({"type": "string", "pattern": r"^(?=a)\b"}, ("pattern",)),
    ({"oneOf": [{"type": "null"}, {"const": 1}]}, ("oneOf",)),
    ({"anyOf": [{"type": "null"}, {"enum": [1, "a"]}], "default": 1}, ()),
    ({"type": "string", "not": {"const": "a"}}, ("not",)),
]
INEXPRESSIBLE: list[tuple[Any, str]] = [
    (True, "allows any value"),
    ({}, "allows any value"),
    ({"type": "array"}, "an array of any values"),
    ({"type": "any"}, "an unknown type"),
    ({"enum": [{"a": 1}]}, "objects or arrays"),
    ({"type": "object", "patternProperties": {}, "additionalProperties": False}, "patternProperties"),
    ({"$ref": "https://example.org/schema"}, r"\$ref to something other"),
    ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}}, "allOf"),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        "recursive",
    ),
    ({"anyOf": [{"type": ["null", "string"]}] * 17}, "more than 16 unions"),
]


def raw_json(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.mark.parametrize(("schema", "dropped"), KEYWORDS)
def test_dropped_schema_keywords_are_reported(schema: Any, dropped: tuple[str, ...]):
    subset = fit_schema(raw_json(schema), closes_objects=False)
    assert subset.schema is not None and subset.dropped == dropped and subset.is_lossless == (not dropped)


@pytest.mark.parametrize(("schema", "reason"), INEXPRESSIBLE)
def test_inexpressible_schema_says_why(schema: Any, reason: str):
    subset = fit_schema(raw_json(schema), closes_objects=False)
    assert subset.schema is None and reason.replace("\\", "") in subset.dropped[0]


def test_deeply_nested_schema_is_not_fitted():
    schema: Any = {"type": "null"}
    for _ in range(400):
        schema = {"type": "array", "items": schema}
    assert fit_schema(raw_json(schema), closes_objects=False).schema is None


def array_of(each: Any) -> Any:
    return {"type": "array", "items": each, "maxItems": 2}


def nullable(each: Any) -> Any:
    return {"anyOf": [each, {"type": "null"}]}


def object_of(each: Any) -> Any:
    return {"type": "object", "properties": {"k": each}, "required": ["k"], "additionalProperties": False}


def keyed_value(each: Any) -> Any:
    return {"k": each}


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(array_of, inner) | st.builds(nullable, inner) | st.builds(object_of, inner)


def nested_values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.builds(keyed_value, inner)


LEAVES: list[Any] = [
    {"type": "string", "minLength": 2},
    {"type": "integer", "maximum": 3},
    {"type": "null"},
    {"enum": ["a", 1]},
    {"const": "x"},
]
VALUES: list[Any] = [None, "a", "ab", "x", 1, 3, 4]
schemas: st.SearchStrategy[Any] = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=4)
values: st.SearchStrategy[Any] = st.recursive(st.sampled_from(VALUES), nested_values)


def allows(schema: Any, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@bounded
@given(schemas, values)
def test_fitted_schema_allows_everything_the_original_allows(schema: Any, value: Any):
    subset = fit_schema(raw_json(schema), closes_objects=False)
    assert subset.schema is not None
    if allows(schema, value):
        assert allows(msgspec.json.decode(subset.schema), value)
    elif subset.is_lossless:
        assert not allows(msgspec.json.decode(subset.schema), value)
