"""What the sandbox says under a constraint obeys it and ends, whatever the constraint and the seed."""

import json
import re
from random import Random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sandbox.constraint import ConstraintSource
from app.sandbox.draft import GeneratedText
from app.sandbox.errors import InvalidConstraint
from app.sandbox.grammar_walk import Budget, Walker
from app.sandbox.tokens import count_tokens

# The same examples each time: no walk can promise to find the end of every regex, and a rare miss should not stop a build.
bounded = settings(max_examples=60, deadline=None, derandomize=True)
EMPTY: dict[str, Any] = {}
nothing = st.just(EMPTY)
seeds = st.integers(0, 2**32)


def walk(recipe: ConstraintSource, seed: int, max_tokens: int | None = None) -> GeneratedText:
    return Walker(recipe.compile(), Budget()).walk(Random(seed), max_tokens)


def texts_schema() -> st.SearchStrategy[dict[str, Any]]:
    lengths = st.tuples(st.integers(0, 12), st.integers(0, 20)).map(lambda pair: {"minLength": pair[0], "maxLength": sum(pair)})
    patterns = st.sampled_from(["^[a-z]{2,5}$", "^ab|cd$", r"\d{3}", "^(x-)?[0-9A-F]{4}$", "end$"]).map(
        lambda pattern: {"pattern": pattern}
    )
    formats = st.sampled_from(["date", "time", "date-time", "uuid", "email", "ipv4"]).map(lambda name: {"format": name})
    return st.one_of(nothing, lengths, patterns, formats).map(lambda more: {"type": "string", **more})


def numbers_schema() -> st.SearchStrategy[dict[str, Any]]:
    ranges = st.tuples(st.integers(-1000, 1000), st.integers(0, 5000)).map(lambda pair: {"minimum": pair[0], "maximum": sum(pair)})
    return st.tuples(st.sampled_from(["integer", "number"]), st.one_of(nothing, ranges)).map(lambda pair: {"type": pair[0], **pair[1]})


def objects_schema(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.sampled_from(["id", "na me", 'qu"ote', "größe", "list"]), parts, max_size=4)
    return st.tuples(properties, st.sampled_from([True, False, {"type": "integer"}]), st.randoms()).map(
        lambda made: {
            "type": "object",
            "properties": made[0],
            "required": [name for name in made[0] if made[2].random() < 0.6],
            "additionalProperties": made[1],
        }
    )


def arrays_schema(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(parts, st.integers(0, 3), st.integers(0, 3)).map(
        lambda made: {"type": "array", "items": made[0], "minItems": made[1], "maxItems": made[1] + made[2]}
    )


leaves = st.one_of(
    texts_schema(),
    numbers_schema(),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"const": {"a": [1, None]}}, {"type": ["string", "null"]}]),
    st.lists(st.one_of(st.text(max_size=8), st.integers(-(2**53), 2**53), st.none(), st.booleans()), min_size=1, max_size=4).map(
        lambda them: {"enum": them}
    ),
)
schemas = st.recursive(
    leaves,
    lambda parts: st.one_of(
        objects_schema(parts),
        arrays_schema(parts),
        st.lists(parts, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    ),
    max_leaves=8,
)


@bounded
@given(schemas, seeds)
def test_a_text_under_a_schema_is_json_that_the_schema_accepts(schema: dict[str, Any], seed: int) -> None:
    said = walk(ConstraintSource("guided_json", "json", schema), seed)
    assert said.is_finished
    jsonschema.validate(
        json.loads(said.text), schema, jsonschema.Draft202012Validator, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


@bounded
@given(schemas, seeds, st.integers(1, 40))
def test_a_schema_in_little_room_is_obeyed_or_admitted_as_unfinished(schema: dict[str, Any], seed: int, room: int) -> None:
    said = walk(ConstraintSource("guided_json", "json", schema), seed, room)
    if said.is_finished:
        jsonschema.validate(json.loads(said.text), schema, jsonschema.Draft202012Validator)


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
def test_a_text_under_a_regex_is_matched_by_it(regex: str, seed: int) -> None:
    said = walk(ConstraintSource("guided_regex", "regex", regex), seed)
    assert said.is_finished
    assert re.fullmatch(regex, said.text)


@pytest.mark.parametrize(
    "regex", [r"(?s:.)*\d{4}-\d{2}", "[^x]*0[a-f]", "(?:[^x]){2,}(?:é|ö)(?: ){2}", r".*\.(?P<kind>png|jpe?g)", "(?i)[a-z ]*End"]
)
@pytest.mark.parametrize("seed", range(5))
def test_an_ending_that_no_byte_leads_to_is_found(regex: str, seed: int) -> None:
    said = walk(ConstraintSource("guided_regex", "regex", regex), seed)
    assert said.is_finished
    assert re.fullmatch(regex, said.text)


@bounded
@given(regexes, seeds)
def test_the_same_seed_says_the_same(regex: str, seed: int) -> None:
    recipe = ConstraintSource("guided_regex", "regex", regex)
    assert walk(recipe, seed).text == walk(recipe, seed).text


def test_another_seed_says_something_else() -> None:
    recipe = ConstraintSource("guided_json", "json", {"type": "string", "minLength": 20})
    assert len({walk(recipe, seed).text for seed in range(10)}) == 10


@pytest.mark.parametrize("seed", range(12))
def test_a_grammar_that_invites_to_nest_for_ever_is_left_again(seed: int) -> None:
    """With even chances a start here has as many children as parents, so a walk without a taste for endings would not end."""
    said = walk(ConstraintSource("guided_grammar", "grammar", 'start: "a" start "b" start "c" | "(" start start "x" | "d"'), seed)
    assert said.is_finished

    def read(at: int) -> int:
        if said.text[at] == "d":
            return at + 1
        if said.text[at] == "(":
            after = read(read(at + 1))
            assert said.text[after] == "x"
        else:
            middle = read(at + 1)
            assert said.text[at] == "a"
            assert said.text[middle] == "b"
            after = read(middle + 1)
            assert said.text[after] == "c"
        return after + 1

    assert read(0) == len(said.text)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "source", ['root ::= sum\nsum ::= [0-9]+ ("+" [0-9]+)*', 'start: SUM\nSUM: /[0-9]+/ ("+" /[0-9]+/)*'], ids=["gbnf", "lark"]
)
def test_both_languages_of_grammars_are_obeyed(source: str, seed: int) -> None:
    assert re.fullmatch(r"[0-9]+(\+[0-9]+)*", walk(ConstraintSource("guided_grammar", "grammar", source), seed).text)


@pytest.mark.parametrize("seed", range(5))
def test_an_ending_of_several_letters_is_found(seed: int) -> None:
    said = walk(ConstraintSource("guided_regex", "regex", "(?s:.)*</answer>"), seed)
    assert said.is_finished
    assert said.text.endswith("</answer>")


@pytest.mark.parametrize("seed", range(5))
def test_demanded_length_is_reached(seed: int) -> None:
    said = walk(ConstraintSource("guided_json", "json", {"type": "array", "items": {"type": "integer"}, "minItems": 2000}), seed)
    assert said.is_finished
    assert len(json.loads(said.text)) >= 2000


def test_whitespace_comes_only_where_and_as_the_pattern_says() -> None:
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
def test_inside_a_structural_tag_there_is_what_its_schema_says(shape: str) -> None:
    texts = [walk(ConstraintSource("structural_tag", "tags", TAGGED[shape]), seed).text for seed in range(30)]
    islands = [island for text in texts for island in re.findall(r"<f=(.*?)</f>", text, re.DOTALL)]
    assert len(islands) >= 5
    assert all(island.startswith("go>") and isinstance(json.loads(island.removeprefix("go>")), dict) for island in islands)
    assert any(text.partition("<f=")[0] for text in texts)


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        (ConstraintSource("f", "regex", "(a"), "unclosed group"),
        (ConstraintSource("f", "regex", "(?=a)a"), "look-around"),
        (ConstraintSource("f", "regex", ""), "is empty"),
        (ConstraintSource("f", "json", {"type": "text"}), "Invalid type"),
        (ConstraintSource("f", "json", {"not": {"type": "string"}}), "not"),
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
def test_what_cannot_be_obeyed_is_refused_with_the_reason(recipe: ConstraintSource, why: str) -> None:
    with pytest.raises(InvalidConstraint, match=re.escape(why)) as refusal:
        walk(recipe, 1)
    assert refusal.value.param == "f"


@pytest.mark.parametrize(
    "recipe",
    [
        ConstraintSource("f", "regex", "((a{1,100}){1,100}){1,100}b"),
        ConstraintSource("f", "regex", "(x+x+)+y{1000}"),
        ConstraintSource("f", "grammar", 'start: a* \na: a a | "x" | b\nb: a b | "x" | "y" b a'),
        ConstraintSource(
            "f", "json", {"$defs": {"n": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
        ),
        ConstraintSource("f", "json", {"enum": [f"{number:06}" for number in range(20_000)]}),
    ],
    ids=["nested counts", "backtracking bait", "ambiguous grammar", "endless nesting", "large enum"],
)
def test_a_hostile_constraint_costs_bounded_time(recipe: ConstraintSource) -> None:
    budget = Budget(seconds=1)
    try:
        said = Walker(recipe.compile(), budget).walk(Random(1), None)
    except InvalidConstraint:
        return
    assert said.text


def test_a_walk_that_nobody_waits_for_is_called_off() -> None:
    budget = Budget()
    walker = Walker(ConstraintSource("f", "regex", "[a-z]{3000}").compile(), budget)
    budget.cancel()
    with pytest.raises(InvalidConstraint, match="nobody waits"):
        walker.walk(Random(1), None)


@bounded
@given(st.text())
def test_tokens_are_the_text_cut_up(text: str) -> None:
    assert count_tokens(text) <= len(text)
    assert (count_tokens(text) == 0) == (text == "")
