"""Facts on which the vLLM adapter relies, checked at a real vLLM: which JSON schemas it enforces in every response, and which not."""

import json
from typing import Any

import jsonschema
import pytest

from providers.structured_output.grammar_coverage import is_schema_covered
from tests.engines.constraint_samples import SUFFICIENT_TOKENS
from tests.engines.direct_requests import post_chat
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

SAMPLES = 8
BOOLEAN: dict[str, Any] = {"type": "boolean"}
XY: dict[str, Any] = {"enum": ["x", "y"]}


def closed_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def two_properties(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": BOOLEAN, "b": BOOLEAN}, "additionalProperties": False, **more}


ENFORCED: dict[str, dict[str, Any]] = {
    "a plain pattern": {"type": "string", "pattern": "^[A-Z]{2}(-|_)\\d{3}x?$"},
    "a pattern without anchors": {"type": "string", "pattern": "q"},
    "bounds of integers": {"type": "integer", "minimum": -3, "maximum": 17},
    "exclusive bounds of integers": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    "bounds of numbers": {"type": "number", "minimum": -1.25, "maximum": 0.5},
    "exclusive bounds of numbers": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "counts of items": {"type": "array", "items": BOOLEAN, "minItems": 2, "maxItems": 3},
    "a tuple": {"type": "array", "prefixItems": [BOOLEAN, XY], "items": False, "minItems": 2},
    "a tuple with a tail": {"type": "array", "prefixItems": [BOOLEAN], "items": XY, "minItems": 3, "maxItems": 3},
    "some required properties": two_properties(required=["b"]),
    "anyOf": {"anyOf": [BOOLEAN, {"const": 4}], "description": "One of both."},
    "enum of all types": {"enum": [1, 'a"b\\', None, True, [1], {"b": "é"}]},
    "const": {"const": {"a": [1, None, "é"]}},
    "property names with quotes": closed_object(**{'a"b': BOOLEAN, "c\\d": BOOLEAN, "é": BOOLEAN}),
    "a reference": {**closed_object(a={"$ref": "#/$defs/n", "title": "A"}), "$defs": {"n": BOOLEAN}},
    "recursion": closed_object(v=BOOLEAN, n={"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
    "uuid": {"type": "string", "format": "uuid"},
}
NOT_ENFORCED: dict[str, dict[str, Any]] = {
    "a bounded length": {"type": "string", "minLength": 20, "maxLength": 20},
    "a pattern of quotes": {"type": "string", "pattern": '^["\\\\]{2}$'},
    "enum and bounds": {"type": "integer", "enum": [1, 9], "minimum": 5},
    "enum and another type": {"type": "string", "enum": ["a", 1]},
    "not": {"type": "boolean", "not": {"const": True}},
    "if": {**two_properties(required=["a"]), "if": {"properties": {"a": {"const": True}}}, "then": {"required": ["b"]}},
    "overlapping oneOf": {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 3}, {"type": "integer", "minimum": 2, "maximum": 5}]},
    "anyOf and bounds": {"anyOf": [{"minimum": 8}], "type": "integer", "maximum": 9},
    "a reference and bounds": {"$defs": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "$ref": "#/$defs/n", "minimum": 5},
    "bounds without a type": {"minimum": 5, "maximum": 6},
    "an anchor": {**closed_object(a={"$ref": "#n"}), "$defs": {"n": {"$anchor": "n", "type": "boolean"}}},
    "ipv4": {"type": "string", "format": "ipv4"},
}


def violations(vllm: Engine, schema: dict[str, Any]) -> list[bool]:
    """Returns, for each complete response, whether it violates the schema."""
    fields: dict[str, Any] = {"structured_outputs": {"json": schema}, "n": SAMPLES, "max_tokens": SUFFICIENT_TOKENS}
    answers = [answer for seed in range(3) for answer in post_chat(vllm, seed=seed, **fields).json()["choices"]]
    complete = [answer["message"]["content"] for answer in answers if answer["finish_reason"] == "stop"]
    assert complete
    return [violates(text, schema) for text in complete]


def violates(text: str, schema: dict[str, Any]) -> bool:
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    try:
        return not checker.is_valid(json.loads(text))  # pyright: ignore[reportUnknownMemberType]
    except ValueError:
        return True


@pytest.mark.parametrize("name", ENFORCED)
def test_schema_we_count_as_covered_is_obeyed_by_every_sample(vllm: Engine, name: str):
    assert is_schema_covered(ENFORCED[name])
    assert not any(violations(vllm, ENFORCED[name]))


@pytest.mark.parametrize("name", NOT_ENFORCED)
def test_schema_we_count_as_not_covered_is_violated_by_some_sample(vllm: Engine, name: str):
    assert not is_schema_covered(NOT_ENFORCED[name])
    assert any(violations(vllm, NOT_ENFORCED[name]))
