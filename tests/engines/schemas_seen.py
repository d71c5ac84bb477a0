"""Schemas of which a vLLM with xgrammar was seen to hold every answer to them, and others of which it holds not all."""

from typing import Any

YES: dict[str, Any] = {"type": "boolean"}
XY: dict[str, Any] = {"enum": ["x", "y"]}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def two(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": YES, "b": YES}, "additionalProperties": False, **more}


OBEYED: dict[str, dict[str, Any]] = {
    "a plain pattern": {"type": "string", "pattern": "^[A-Z]{2}(-|_)\\d{3}x?$"},
    "a pattern without anchors": {"type": "string", "pattern": "q"},
    "bounds of integers": {"type": "integer", "minimum": -3, "maximum": 17},
    "open bounds of integers": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    "bounds of numbers": {"type": "number", "minimum": -1.25, "maximum": 0.5},
    "open bounds of numbers": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "counts of items": {"type": "array", "items": YES, "minItems": 2, "maxItems": 3},
    "a tuple": {"type": "array", "prefixItems": [YES, XY], "items": False, "minItems": 2},
    "a tuple with a tail": {"type": "array", "prefixItems": [YES], "items": XY, "minItems": 3, "maxItems": 3},
    "counts of properties": two(minProperties=1, maxProperties=1),
    "some that are required": two(required=["b"]),
    "properties without a type": {"properties": {"a": YES}, "required": ["a"]},
    "anyOf": {"anyOf": [YES, {"const": 4}], "description": "One of both."},
    "oneOf of values": {"oneOf": [{"const": "a"}, {"const": "b"}]},
    "oneOf of types": {"oneOf": [YES, {"type": "null"}]},
    "allOf of one": {"allOf": [{"type": "integer", "minimum": 3, "maximum": 5}]},
    "values of all types": {"enum": [1, 'a"b\\', None, True, [1], {"b": "é"}]},
    "a value": {"const": {"a": [1, None, "é"]}},
    "several types": {"type": ["integer", "null"], "minimum": 5, "maximum": 6},
    "names with quotes": obj(**{'a"b': YES, "c\\d": YES, "é": YES}),
    "a reference": {**obj(a={"$ref": "#/$defs/n", "title": "A"}), "$defs": {"n": YES}},
    "recursion": obj(v=YES, n={"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
    "uuid": {"type": "string", "format": "uuid"},
}
PASSED_OVER: dict[str, dict[str, Any]] = {
    "a bounded length": {"type": "string", "minLength": 20, "maxLength": 20},
    "a pattern of quotes": {"type": "string", "pattern": '^["\\\\]{2}$'},
    "a pattern of anything else": {"type": "string", "pattern": "^[^a]{60}$"},
    "a value and its bounds": {"type": "integer", "enum": [1, 9], "minimum": 5},
    "a value and another type": {"type": "string", "enum": ["a", 1]},
    "not": {"type": "boolean", "not": {"const": True}},
    "if": {**two(required=["a"]), "if": {"properties": {"a": {"const": True}}}, "then": {"required": ["b"]}},
    "oneOf that overlap": {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 3}, {"type": "integer", "minimum": 2, "maximum": 5}]},
    "beside anyOf": {"anyOf": [{"minimum": 8}], "type": "integer", "maximum": 9},
    "beside a reference": {"$defs": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "$ref": "#/$defs/n", "minimum": 5},
    "bounds without a type": {"minimum": 5, "maximum": 6},
    "an anchor": {**obj(a={"$ref": "#n"}), "$defs": {"n": {"$anchor": "n", "type": "boolean"}}},
    "ipv4": {"type": "string", "format": "ipv4"},
    "time": {"type": "string", "format": "time"},
}
