"""Constraint fields: every engine's form of a constraint is read as the same constraint, and two constraints at once are refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers import structured_output
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import Body
from providers.structured_output import read_output_format
from tests.support.case_tables import assert_every
from tests.support.strategies.chat_strategies import bounded, nonempty_texts

schemas = st.dictionaries(
    st.sampled_from(["type", "properties", "enum", "maximum", "ünknown"]),
    st.recursive(st.none() | st.booleans() | st.integers() | nonempty_texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    max_size=4,
)
outputs: st.SearchStrategy[OutputFormat] = st.one_of(
    st.just(JsonObject()),
    schemas.map(lambda schema: JsonSchema(Raw(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()))),
    st.booleans().map(lambda anything: JsonSchema(Raw(b"true" if anything else b"false"))),
    nonempty_texts.map(Regex),
    st.lists(nonempty_texts, min_size=1, max_size=3).map(lambda options: Choice(tuple(options))),
    nonempty_texts.map(Grammar),
    schemas.map(lambda tag: StructuralTag(json.dumps(tag, ensure_ascii=False, separators=(",", ":")))),
)
CONSTRAINT_EXAMPLES: dict[str, Any] = {
    "guided_json": {"type": "object"},
    "guided_regex": "[0-9]+",
    "guided_choice": ["yes", "no"],
    "guided_grammar": 'root ::= "a"',
    "structural_tag": {"format": {"type": "any_text"}},
    "structured_outputs": {"regex": "a"},
    "regex": "[0-9]+",
    "ebnf": 'root ::= "a"',
    "grammar": 'root ::= "a"',
    "json_schema": {"type": "object"},
}


def body_of(fields: dict[str, Any]) -> Body:
    return Body.read(json.dumps(fields).encode())


def written_body(write: Callable[[OutputFormat], dict[str, Any]], output: OutputFormat) -> Body:
    return Body.read(Body(write(output)).write())


@bounded
@given(outputs)
def test_structured_outputs_round_trip_every_constraint(output: OutputFormat) -> None:
    assert read_output_format(written_body(structured_output.write_structured_outputs, output)) == output


@bounded
@given(outputs)
def test_guided_fields_round_trip_every_constraint(output: OutputFormat) -> None:
    written = written_body(structured_output.write_guided_fields, output)
    match output:
        case JsonObject():
            assert written.value("response_format") == {"type": "json_object"}
        case StructuralTag():
            assert written.value("response_format") == {**json.loads(output.text), "type": "structural_tag"}
        case _:
            assert read_output_format(written) == output


@bounded
@given(outputs)
def test_response_format_expresses_json_and_refuses_other_constraints(output: OutputFormat) -> None:
    match output:
        case JsonObject():
            assert structured_output.write_response_format(output) == {"response_format": {"type": "json_object"}}
        case JsonSchema():
            response_format = written_body(structured_output.write_response_format, output).value("response_format")
            assert response_format["type"] == "json_schema"
            assert response_format["json_schema"]["schema"] == json.loads(bytes(output.schema))
            assert response_format["json_schema"]["strict"] is True
        case _:
            with pytest.raises(Unsupported):
                structured_output.write_response_format(output)


@pytest.mark.parametrize("field", CONSTRAINT_EXAMPLES)
def test_every_constraint_field_is_read(field: str) -> None:
    assert set(CONSTRAINT_EXAMPLES) == structured_output.CONSTRAINT_FIELDS
    assert read_output_format(body_of({field: CONSTRAINT_EXAMPLES[field]})) is not None
    assert read_output_format(body_of({field: None})) is None
    assert read_output_format(body_of({})) is None


def test_two_constraint_fields_at_once_are_refused() -> None:
    examples = {**CONSTRAINT_EXAMPLES, "response_format": {"type": "json_object"}}

    def check(pair: tuple[str, str]) -> None:
        field, other = pair
        fields = {field: examples[field], other: examples[other]}
        if field == other:
            assert read_output_format(body_of(fields)) is not None
            return
        with pytest.raises(InvalidRequest) as refused:
            read_output_format(body_of(fields))
        assert field in refused.value.message
        assert other in refused.value.message

    assert_every(check, [(field, other) for field in CONSTRAINT_EXAMPLES for other in examples])


def test_two_constraints_inside_structured_outputs_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_output_format(body_of({"structured_outputs": {"regex": "a", "json": {}}}))


@pytest.mark.parametrize("format", [None, {"type": "text"}])
def test_unconstraining_response_format_does_not_conflict_with_a_constraint(format: Any) -> None:
    assert read_output_format(body_of({"guided_regex": "a", "response_format": format})) == Regex("a")


def test_json_schema_may_be_given_as_text() -> None:
    assert read_output_format(body_of({"guided_json": '{"type": "object"}'})) == JsonSchema(Raw(b'{"type":"object"}'))
    assert read_output_format(body_of({"structured_outputs": {"json": "{}"}})) == JsonSchema(Raw(b"{}"))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"guided_json": "{no"}, "guided_json"),
        ({"guided_json": "5"}, "guided_json"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"guided_choice": "a"}, "guided_choice"),
        ({"regex": ["a"]}, "regex"),
        ({"ebnf": {}}, "ebnf"),
        ({"grammar": 1}, "grammar"),
        ({"json_schema": [1]}, "json_schema"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"json": [1]}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 1]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"grammar": {}}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"json_object": "yes"}}, "structured_outputs.json_object"),
        ({"structured_outputs": {"regexp": "a"}}, "structured_outputs.regexp"),
    ],
    ids=str,
)
def test_invalid_constraint_value_is_refused_by_field_name(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_output_format(body_of(fields))
    assert refused.value.param == path


@pytest.mark.parametrize("switches", [{}, {"json": None}, {"json_object": False, "regex": None}])
def test_empty_structured_outputs_are_read_as_no_constraint(switches: dict[str, Any]) -> None:
    assert read_output_format(body_of({"structured_outputs": switches})) is None


@pytest.mark.parametrize("tag", ["{no", "[1]", '"x"'])
def test_structural_tag_that_is_not_an_object_is_refused_when_written(tag: str) -> None:
    with pytest.raises(InvalidRequest, match="structural_tag"):
        structured_output.write_guided_fields(StructuralTag(tag))
