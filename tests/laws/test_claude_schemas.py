"""Laws of schemas at Anthropic: what it is told allows all that the caller does, and what was left out is known."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.profiles.claude.json_schemas import fit_schema
from tests.laws.chats import bounded

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
NEVER: list[tuple[Any, str]] = [
    (True, "anything"),
    ({}, "anything"),
    ({"type": "array"}, "an array of anything"),
    ({"type": "any"}, "a type of another kind"),
    ({"enum": [{"a": 1}]}, "objects or lists"),
    ({"type": "object", "patternProperties": {}, "additionalProperties": False}, "patternProperties"),
    ({"$ref": "https://example.org/schema"}, r"\$ref to elsewhere"),
    ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}}, "allOf"),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        "itself",
    ),
    ({"anyOf": [{"type": ["null", "string"]}] * 17}, "more than 16 unions"),
]


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.mark.parametrize(("schema", "lost"), KEYWORDS)
def test_what_is_left_out_of_a_schema_is_known(schema: Any, lost: tuple[str, ...]):
    told = fit_schema(raw(schema), closes_objects=False)
    assert told.schema is not None and told.dropped == lost and told.is_lossless == (not lost)


@pytest.mark.parametrize(("schema", "why"), NEVER)
def test_a_schema_of_which_nothing_is_left_says_why(schema: Any, why: str):
    told = fit_schema(raw(schema), closes_objects=False)
    assert told.schema is None and why.replace("\\", "") in told.dropped[0]


def test_a_schema_nested_without_end_costs_nothing():
    schema: Any = {"type": "null"}
    for _ in range(400):
        schema = {"type": "array", "items": schema}
    assert fit_schema(raw(schema), closes_objects=False).schema is None


def listed(each: Any) -> Any:
    return {"type": "array", "items": each, "maxItems": 2}


def nullable(each: Any) -> Any:
    return {"anyOf": [each, {"type": "null"}]}


def held(each: Any) -> Any:
    return {"type": "object", "properties": {"k": each}, "required": ["k"], "additionalProperties": False}


def keyed(each: Any) -> Any:
    return {"k": each}


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(listed, inner) | st.builds(nullable, inner) | st.builds(held, inner)


def held_values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.builds(keyed, inner)


LEAVES: list[Any] = [
    {"type": "string", "minLength": 2},
    {"type": "integer", "maximum": 3},
    {"type": "null"},
    {"enum": ["a", 1]},
    {"const": "x"},
]
VALUES: list[Any] = [None, "a", "ab", "x", 1, 3, 4]
schemas: st.SearchStrategy[Any] = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=4)
values: st.SearchStrategy[Any] = st.recursive(st.sampled_from(VALUES), held_values)


def allows(schema: Any, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@bounded
@given(schemas, values)
def test_what_anthropic_is_told_allows_all_that_the_caller_does(schema: Any, value: Any):
    told = fit_schema(raw(schema), closes_objects=False)
    assert told.schema is not None
    if allows(schema, value):
        assert allows(msgspec.json.decode(told.schema), value)
    elif told.is_lossless:
        assert not allows(msgspec.json.decode(told.schema), value)
