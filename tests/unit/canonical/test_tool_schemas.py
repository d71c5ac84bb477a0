"""Schemas of tools' inputs say that they are of an object."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from providers.canonical.tool_schemas import SchemaHead, is_schema_of_object, type_as_object

ANY_OF = [{"required": ["a"]}, {"required": ["b"]}]


@pytest.mark.parametrize(
    ("schema", "typed"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": None}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"], "properties": {}}, {"type": "object", "properties": {}}),
        ({"anyOf": ANY_OF}, {"type": "object", "anyOf": ANY_OF}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": ["string"]}, {"type": ["string"]}),
    ],
)
def test_schema_without_a_type_is_one_of_an_object(schema: dict[str, Any], typed: dict[str, Any]):
    assert json.loads(msgspec.json.encode(type_as_object(Raw(json.dumps(schema).encode())))) == typed


@pytest.mark.parametrize(("type", "is_object"), [("object", True), (None, True), (["object", "null"], True), ("array", False), (7, False)])
def test_only_types_that_allow_an_object_are_those_of_an_input(type: Any, is_object: bool):
    assert is_schema_of_object(SchemaHead(Raw(json.dumps(type).encode()))) is is_object
