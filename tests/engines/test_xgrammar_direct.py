"""The schemas that xgrammar enforces, in the version that vLLM uses: the basis of is_schema_covered()."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from providers.structured_output.grammar_coverage import is_schema_covered
from tests.engines.install import VENV, is_installed

pytestmark = pytest.mark.engines

# For each line of [schema, text] prints whether the grammar of the schema accepts the text, or the error.
_SCRIPT = """
import json, sys
import xgrammar
tokens = [bytes([each]) for each in range(256)] + [b"<end>"]
compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[256]))
for schema, text in map(json.loads, sys.stdin):
    try:
        matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema)))
        passes = all(map(matcher.accept_token, text.encode())) and matcher.accept_token(256)
    except RuntimeError as fault:
        passes = str(fault)
    print(json.dumps(passes))
"""

INTEGER = {"type": "integer"}
A_PROPERTY = {"a": INTEGER}
TEXTS = [
    *("0", "1", "2", "3", "4", "5", "6", "-1", "0.0005", "3.5", "1.0", "1e5", "2e5", "-0", "01", "1.", "true", "null", '""', '"a"', '"b"'),
    *('"A"', '"aa"', '"abc"', '"ab1"', '"\x01"', '"\n"', '"\\"', '"""', '"\\q"', '"\\n"', '"2026-11-21"', '"2026-13-01"'),
    *('"2026-11-21T12:00:00Z"', '"2026-11-21T25:00:00Z"', '"25:00:00Z"'),
]
COVERED: list[dict[str, Any]] = [
    {},
    *({"type": kind} for kind in ("object", "array", "string", "integer", "number", "boolean", "null")),
    {"type": ["integer", "null"]},
    *({"type": "string", "pattern": each} for each in ("^[a-z]+$", "b", "^.$", "^[^a]$", r"^\w\d?$", r"^\D$", r"^[ -~]\.?$", "^(?:a|b)$")),
    {"type": "string", "format": "uuid"},
    *({"type": "integer", key: 3} for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    *({"type": "number", key: value} for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") for value in (3, 3.5, 0)),
    {"type": "integer", "minimum": 2, "exclusiveMaximum": 5},
    {"enum": ["a", 1, None, {"a": [1, 2]}]},
    {"type": "string", "enum": ["a", "b"]},
    {"const": {"a": 1}},
    {"anyOf": [INTEGER, {"type": "null"}]},
    {"type": "object", "properties": A_PROPERTY},
    {"type": "object", "properties": A_PROPERTY, "required": ["a"]},
    {"type": "object", "properties": A_PROPERTY, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": A_PROPERTY, "additionalProperties": True},
    {"type": "object", "properties": A_PROPERTY, "additionalProperties": INTEGER},
    {"type": "object", "additionalProperties": INTEGER},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"], "$defs": {"x": INTEGER}},
    {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["a"]},
    {"type": "array", "items": INTEGER},
    {"type": "array", "items": INTEGER, "minItems": 2},
    {"type": "array", "items": INTEGER, "maxItems": 1},
    {"type": "array", "maxItems": 1},
    {"type": "array", "items": False},
    {"type": "array", "prefixItems": [INTEGER], "items": {"type": "string"}},
    {"type": "array", "prefixItems": [INTEGER], "items": False, "minItems": 1},
]
# For each of these it accepts a text that is invalid, or not JSON.
NOT_COVERED: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "maxLength": 3}, '"\x01"'),
    ({"type": "string", "minLength": 1}, '"\x01"'),
    ({"type": "string", "pattern": '^"$'}, '"""'),
    ({"type": "string", "pattern": r"^\\$"}, '"\\"'),
    ({"type": "string", "pattern": r"^\n$"}, '"\n"'),
    ({"type": "string", "pattern": "(?=a)b"}, '"b"'),
    ({"type": "string", "pattern": "a^b"}, '"ab"'),
    ({"type": "integer", "enum": ["a", 1]}, '"a"'),
    ({"const": 1, "type": "string"}, "1"),
    ({"anyOf": [INTEGER, {"type": "null"}], "type": "integer"}, "null"),
    ({"oneOf": [INTEGER, {"type": "number"}]}, "1"),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 4}]}, "9"),
    ({"$ref": "#/$defs/a", "maximum": 3, "$defs": {"a": INTEGER}}, "5"),
    ({"type": "object", "required": ["b"]}, "{}"),
    ({"type": "object", "properties": A_PROPERTY, "required": ["b"]}, '{"a": 1}'),
    ({"type": "boolean", "not": {"const": True}}, "true"),
    ({"if": INTEGER, "then": {"minimum": 3}}, "2"),
    ({"minimum": 3}, "2"),
    ({"maxLength": 1}, '"aa"'),
    ({"type": "string", "format": "date"}, '"2026-02-30"'),
    ({"type": "string", "format": "date-time"}, '"2026-02-30T12:00:00Z"'),
    ({"type": "string", "format": "time"}, '"15:09:60Z"'),
]


@pytest.fixture(scope="module")
def accepted_by_xgrammar() -> Iterator[Any]:
    if not is_installed():
        pytest.skip(f"No xgrammar here: {VENV.name} is missing or out of date. `python -m tests.engines.install` makes it.")

    def run(pairs: list[tuple[dict[str, Any], str]]) -> list[bool | str]:
        lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
        command = [str(VENV / "bin" / "python"), "-c", _SCRIPT]
        output = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
        return [json.loads(line) for line in output.splitlines()]

    yield run


def test_xgrammar_accepts_only_valid_texts_for_covered_schemas(accepted_by_xgrammar: Any):
    assert [schema for schema in COVERED if not is_schema_covered(schema)] == []
    pairs = [(schema, text) for schema in COVERED for text in TEXTS]
    answers = accepted_by_xgrammar(pairs)
    assert not any(isinstance(answer, str) for answer in answers)
    assert [pair for pair, accepted in zip(pairs, answers, strict=True) if accepted and not is_valid(*pair)] == []
    assert sum(answers) > 100


def test_xgrammar_accepts_an_invalid_text_for_each_schema_not_covered(accepted_by_xgrammar: Any):
    assert [schema for schema, _ in NOT_COVERED if is_schema_covered(schema)] == []
    assert accepted_by_xgrammar(NOT_COVERED) == [True] * len(NOT_COVERED)
    assert [pair for pair in NOT_COVERED if is_valid(*pair)] == []


def is_valid(schema: dict[str, Any], text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid(value)
