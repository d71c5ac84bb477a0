"""Text that the sandbox generates under a constraint satisfies it and ends, whatever the constraint and the seed."""

import json
import re
from random import Random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sandbox.protocol.errors import InvalidConstraint
from app.sandbox.text.constraint import ConstraintSource
from app.sandbox.text.draft import GeneratedText
from app.sandbox.text.grammar_walk import Budget, Walker
from app.sandbox.text.schema_rewrite import rewrite_schema
from app.sandbox.text.tokens import count_tokens

# The same examples in every run: no walk finds the end of every regex, and a rare miss must not fail a build.
bounded = settings(max_examples=60, deadline=None, derandomize=True)
EMPTY: dict[str, Any] = {}
no_keywords = st.just(EMPTY)
seeds = st.integers(0, 2**32)


def walk(source: ConstraintSource, seed: int, max_tokens: int | None = None) -> GeneratedText:
    return Walker(source.compile(), Budget()).walk(Random(seed), max_tokens)


def string_schemas() -> st.SearchStrategy[dict[str, Any]]:
    lengths = st.tuples(st.integers(0, 12), st.integers(0, 20)).map(lambda pair: {"minLength": pair[0], "maxLength": sum(pair)})
    patterns = st.sampled_from(["^[a-z]{2,5}$", "^ab|cd$", r"\d{3}", "^(x-)?[0-9A-F]{4}$", "end$"]).map(
        lambda pattern: {"pattern": pattern}
    )
    formats = st.sampled_from(["date", "time", "date-time", "uuid", "email", "ipv4"]).map(lambda name: {"format": name})
    return st.one_of(no_keywords, lengths, patterns, formats).map(lambda more: {"type": "string", **more})


def number_schemas() -> st.SearchStrategy[dict[str, Any]]:
    ranges = st.tuples(st.integers(-1000, 1000), st.integers(0, 5000)).map(lambda pair: {"minimum": pair[0], "maximum": sum(pair)})
    return st.tuples(st.sampled_from(["integer", "number"]), st.one_of(no_keywords, ranges)).map(lambda pair: {"type": pair[0], **pair[1]})


def object_schemas(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.sampled_from(["id", "na me", 'qu"ote', "größe", "list"]), parts, max_size=4)
    return st.tuples(properties, st.sampled_from([True, False, {"type": "integer"}]), st.randoms()).map(
        lambda made: {
            "type": "object",
            "properties": made[0],
            "required": [name for name in made[0] if made[2].random() < 0.6],
            "additionalProperties": made[1],
        }
    )


def array_schemas(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(parts, st.integers(0, 3), st.integers(0, 3)).map(
        lambda made: {"type": "array", "items": made[0], "minItems": made[1], "maxItems": made[1] + made[2]}
    )


leaves = st.one_of(
    string_schemas(),
    number_schemas(),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"const": {"a": [1, None]}}, {"type": ["string", "null"]}]),
    st.lists(st.one_of(st.text(max_size=8), st.integers(-(2**53), 2**53), st.none(), st.booleans()), min_size=1, max_size=4).map(
        lambda them: {"enum": them}
    ),
)
schemas = st.recursive(
    leaves,
    lambda parts: st.one_of(
        object_schemas(parts),
        array_schemas(parts),
        st.lists(parts, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    ),
    max_leaves=8,
)


@bounded
@given(schemas, seeds)
def test_text_generated_under_a_schema_is_valid_for_it(schema: dict[str, Any], seed: int) -> None:
    generated = walk(ConstraintSource("guided_json", "json", schema), seed)
    assert generated.is_finished
    jsonschema.validate(
        json.loads(generated.text), schema, jsonschema.Draft202012Validator, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


@bounded
@given(schemas, seeds, st.integers(1, 40))
def test_text_limited_by_max_tokens_is_valid_or_marked_unfinished(schema: dict[str, Any], seed: int, max_tokens: int) -> None:
    generated = walk(ConstraintSource("guided_json", "json", schema), seed, max_tokens)
    if generated.is_finished:
        jsonschema.validate(json.loads(generated.text), schema, jsonschema.Draft202012Validator)


KIND = {"enum": ["file", "url"]}
APPROXIMATED: list[dict[str, Any]] = [
    # As Claude Code and zod write a record.
    {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}, "minProperties": 2},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{2,6}$"}, "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "required": ["b"], "additionalProperties": {"type": "integer"}},
    {"type": "object", "propertyNames": {"maxLength": 5}, "minProperties": 1},
    {"type": "object", "patternProperties": {"^x-": {"type": "integer"}, "^.*$": {"type": "number"}}, "minProperties": 1},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "minProperties": 1, "maxProperties": 1},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}, "dependentRequired": {"a": ["b"]}},
    {"type": "object", "properties": {"a": {}}, "required": ["a"], "dependentSchemas": {"a": {"required": ["c"]}}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "unevaluatedProperties": False},
    {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"], "not": {"required": ["a"]}},
    {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"], "not": {"required": ["a", "b"]}},
    {
        "type": "object",
        "properties": {"kind": KIND, "path": {"type": "string"}, "url": {"type": "string"}},
        "required": ["kind"],
        "allOf": [
            {"if": {"properties": {"kind": {"const": "file"}}}, "then": {"required": ["path"]}},
            {"if": {"properties": {"kind": {"const": "url"}}}, "then": {"required": ["url"]}, "else": {"not": {"required": ["url"]}}},
        ],
    },
    {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "integer"}},
    {"type": "string", "enum": ["a", "b"], "not": {"const": "a"}},
    {"not": {"type": ["string", "number"]}},
    {"type": "string", "not": {"pattern": "^x"}},
    {"type": "string", "pattern": "^(?!.*foo).*$"},
    {"type": "string", "format": "int-or-string"},
    {"type": "array", "items": {"enum": ["a", "b", "c", "d", "e", "f"]}, "uniqueItems": True, "minItems": 5},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 7}, "minContains": 2},
    {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 7}, "maxContains": 1},
    {"type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": False},
    {
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]},
        ]
    },
    {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                "not": {"required": ["x"]},
            }
        },
        "$ref": "#/$defs/tree",
    },
]


@pytest.mark.parametrize("schema", APPROXIMATED, ids=lambda schema: str(schema)[:70])
def test_schema_with_keywords_that_the_grammar_lacks_is_satisfied(schema: dict[str, Any]) -> None:
    texts: set[str] = set()
    for seed in range(8):
        generated = walk(ConstraintSource("guided_json", "json", schema), seed)
        assert generated.is_finished
        jsonschema.validate(json.loads(generated.text), schema, jsonschema.Draft202012Validator)
        texts.add(generated.text)
    assert len(texts) > 1 or schema.get("enum")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": [{"type": "integer"}], "additionalItems": False, "minItems": 1, "uniqueItems": True},
        {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a"], "dependencies": {"a": ["b"]}},
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "not": {"multipleOf": 10}},
    ],
    ids=str,
)
def test_schema_of_an_older_draft_is_satisfied(schema: dict[str, Any]) -> None:
    draft = jsonschema.Draft4Validator if "exclusiveMinimum" in schema else jsonschema.Draft7Validator
    for seed in range(8):
        jsonschema.validate(json.loads(walk(ConstraintSource("guided_json", "json", schema), seed).text), schema, draft)


def test_rewritten_schema_stays_small_when_it_repeats_its_parts() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(8):
        schema = {"type": "array", "items": schema, "contains": schema.get("items", schema), "minContains": 90}
    source = json.dumps({"type": "object", "properties": {"a": schema}})
    assert len(rewrite_schema(source)) < 50 * len(source)


regexes = st.recursive(
    st.sampled_from(["a", "0", " ", "é", r"\.", "[a-f]", "[^x]", r"[0-9]", ".", r"\n", "[A-Z_]", "yes"]),
    lambda parts: st.one_of(
        st.tuples(parts, parts).map("".join),
        st.tuples(parts, parts).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=10,
)


@bounded
@given(regexes, seeds)
def test_text_generated_under_a_regex_matches_it(regex: str, seed: int) -> None:
    generated = walk(ConstraintSource("guided_regex", "regex", regex), seed)
    assert generated.is_finished
    assert re.fullmatch(regex, generated.text)


@pytest.mark.parametrize(
    "regex", [r"(?s:.)*\d{4}-\d{2}", "[^x]*0[a-f]", "(?:[^x]){2,}(?:é|ö)(?: ){2}", r".*\.(?P<kind>png|jpe?g)", "(?i)[a-z ]*End"]
)
@pytest.mark.parametrize("seed", range(5))
def test_walk_finishes_a_regex_whose_ending_no_single_byte_leads_to(regex: str, seed: int) -> None:
    generated = walk(ConstraintSource("guided_regex", "regex", regex), seed)
    assert generated.is_finished
    assert re.fullmatch(regex, generated.text)


@bounded
@given(regexes, seeds)
def test_same_seed_generates_the_same_text(regex: str, seed: int) -> None:
    source = ConstraintSource("guided_regex", "regex", regex)
    assert walk(source, seed).text == walk(source, seed).text


def test_different_seeds_generate_different_texts() -> None:
    source = ConstraintSource("guided_json", "json", {"type": "string", "minLength": 20})
    assert len({walk(source, seed).text for seed in range(10)}) == 10


@pytest.mark.parametrize("seed", range(12))
def test_walk_ends_in_a_grammar_that_invites_endless_nesting(seed: int) -> None:
    """This grammar grows as fast as it ends with even chances, so a walk that does not prefer endings would not end."""
    generated = walk(ConstraintSource("guided_grammar", "grammar", 'start: "a" start "b" start "c" | "(" start start "x" | "d"'), seed)
    assert generated.is_finished

    def read(at: int) -> int:
        if generated.text[at] == "d":
            return at + 1
        if generated.text[at] == "(":
            after = read(read(at + 1))
            assert generated.text[after] == "x"
        else:
            middle = read(at + 1)
            assert generated.text[at] == "a"
            assert generated.text[middle] == "b"
            after = read(middle + 1)
            assert generated.text[after] == "c"
        return after + 1

    assert read(0) == len(generated.text)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "source", ['root ::= sum\nsum ::= [0-9]+ ("+" [0-9]+)*', 'start: SUM\nSUM: /[0-9]+/ ("+" /[0-9]+/)*'], ids=["gbnf", "lark"]
)
def test_gbnf_and_lark_grammars_are_both_obeyed(source: str, seed: int) -> None:
    assert re.fullmatch(r"[0-9]+(\+[0-9]+)*", walk(ConstraintSource("guided_grammar", "grammar", source), seed).text)


@pytest.mark.parametrize("seed", range(5))
def test_walk_finishes_a_regex_with_a_multi_letter_ending(seed: int) -> None:
    generated = walk(ConstraintSource("guided_regex", "regex", "(?s:.)*</answer>"), seed)
    assert generated.is_finished
    assert generated.text.endswith("</answer>")


@pytest.mark.parametrize("seed", range(5))
def test_array_reaches_its_min_items(seed: int) -> None:
    generated = walk(ConstraintSource("guided_json", "json", {"type": "array", "items": {"type": "integer"}, "minItems": 2000}), seed)
    assert generated.is_finished
    assert len(json.loads(generated.text)) >= 2000


def test_whitespace_appears_only_as_the_whitespace_pattern_allows() -> None:
    schema = {"type": "array", "items": {"type": "boolean"}, "minItems": 3}
    spaced = "".join(walk(ConstraintSource("guided_json", "json", schema, whitespace="_?"), seed).text for seed in range(20))
    assert "_" in spaced
    assert set(spaced) <= set("[]_,truefalse")
    tight = "".join(walk(ConstraintSource("guided_json", "json", schema), seed).text for seed in range(20))
    assert set(tight) <= set("[],truefalse")


TAGGED = {
    "old": {"structures": [{"begin": "<f=go>", "schema": {"type": "object"}, "end": "</f>"}], "triggers": ["<f="]},
    "new": {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<f="],
            "tags": [
                {"type": "tag", "begin": "<f=go>", "content": {"type": "json_schema", "json_schema": {"type": "object"}}, "end": "</f>"}
            ],
        },
    },
}


@pytest.mark.parametrize("shape", TAGGED)
def test_structural_tag_content_is_valid_for_its_schema(shape: str) -> None:
    texts = [walk(ConstraintSource("structural_tag", "tags", TAGGED[shape]), seed).text for seed in range(30)]
    islands = [island for text in texts for island in re.findall(r"<f=(.*?)</f>", text, re.DOTALL)]
    assert len(islands) >= 5
    assert all(island.startswith("go>") and isinstance(json.loads(island.removeprefix("go>")), dict) for island in islands)
    assert any(text.partition("<f=")[0] for text in texts)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (ConstraintSource("f", "regex", "(a"), "unclosed group"),
        (ConstraintSource("f", "regex", "(?=a)a"), "look-around"),
        (ConstraintSource("f", "regex", ""), "is empty"),
        (ConstraintSource("f", "json", {"type": "text"}), "Invalid type"),
        (ConstraintSource("f", "json", {"type": "string", "not": {"type": "string"}}), "not"),
        (ConstraintSource("f", "json", {"allOf": [{"type": "string"}, {"not": {"minLength": 0}}]}), "no valid text was found"),
        (ConstraintSource("f", "json", {"not": {"$ref": "http://127.0.0.1:9/schema"}}), "not"),
        (ConstraintSource("f", "json", {"type": "integer", "minimum": 2, "maximum": 1}), "Unsatisfiable"),
        (ConstraintSource("f", "json", "{"), "not a JSON schema"),
        (ConstraintSource("f", "json", 7), "not a JSON schema"),
        (ConstraintSource("f", "grammar", "start: nothing"), "unknown name"),
        (ConstraintSource("f", "grammar", "root = 1"), "Expected ::="),
        (ConstraintSource("f", "choice", []), "nothing to choose from"),
        (ConstraintSource("f", "tags", {"format": {"type": "unheard_of"}}), "unheard_of"),
        (ConstraintSource("f", "tags", {"structures": []}), "either a `format`"),
        (ConstraintSource("f", "tags", "{"), "truncated"),
        (ConstraintSource("f", "grammar", "root ::= " + "(" * 5000), "recursion"),
        (ConstraintSource("f", "regex", "a" * 300_000), "300000 characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unsatisfiable_constraint_is_refused_with_the_reason(source: ConstraintSource, reason: str) -> None:
    with pytest.raises(InvalidConstraint, match=re.escape(reason)) as refusal:
        walk(source, 1)
    assert refusal.value.param == "f"


@pytest.mark.parametrize(
    "source",
    [
        ConstraintSource("f", "regex", "((a{1,100}){1,100}){1,100}b"),
        ConstraintSource("f", "regex", "(x+x+)+y{1000}"),
        ConstraintSource("f", "grammar", 'start: a* \na: a a | "x" | b\nb: a b | "x" | "y" b a'),
        ConstraintSource(
            "f", "json", {"$defs": {"n": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
        ),
        ConstraintSource("f", "json", {"enum": [f"{number:06}" for number in range(20_000)]}),
        ConstraintSource(
            "f", "json", {"type": "string", "minLength": 40, "pattern": "^(?=(a|a?)+$)(.|.)*$", "not": {"pattern": "^((a+)+)+$"}}
        ),
        ConstraintSource("f", "json", {"type": "object", "patternProperties": {f"(?=x{number})": {} for number in range(9_000)}}),
    ],
    ids=[
        *("nested counts", "backtracking bait", "ambiguous grammar", "endless nesting", "large enum"),
        *("look-ahead with backtracking", "many patterns"),
    ],
)
def test_hostile_constraint_is_refused_or_answered_within_the_time_budget(source: ConstraintSource) -> None:
    budget = Budget(seconds=1)
    try:
        generated = Walker(source.compile(), budget).walk(Random(1), None)
    except InvalidConstraint:
        return
    assert generated.text


def test_walk_stops_when_its_budget_is_cancelled() -> None:
    budget = Budget()
    walker = Walker(ConstraintSource("f", "regex", "[a-z]{3000}").compile(), budget)
    budget.cancel()
    with pytest.raises(InvalidConstraint, match="the request was cancelled"):
        walker.walk(Random(1), None)


@bounded
@given(st.text())
def test_token_count_is_at_most_the_text_length_and_zero_only_for_empty_text(text: str) -> None:
    assert count_tokens(text) <= len(text)
    assert (count_tokens(text) == 0) == (text == "")
