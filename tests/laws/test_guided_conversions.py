"""Laws of conversions: what is said another way for an engine's sake accepts exactly the same answers."""

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from msgspec import Raw

from providers import guided
from providers.errors import Unsupported
from providers.guided.lark import gbnf_to_lark
from tests.laws.chats import bounded

BYTES = LLTokenizer("byte")
letters = st.sampled_from('abc-1 _\n."é')
answers = st.text(letters, max_size=6)


def accepts(grammar: str, answer: str) -> bool:
    matcher = LLMatcher(BYTES, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    said = list(answer.encode())
    return matcher.try_consume_tokens(said) == len(said) and matcher.is_accepting()


def by_gbnf(gbnf: str, answer: str) -> bool:
    return accepts(LLMatcher.grammar_from_lark(gbnf_to_lark(gbnf)), answer)


def by_regex(pattern: str, answer: str) -> bool:
    return accepts(LLMatcher.grammar_from_regex(pattern), answer)


atoms = st.sampled_from(
    ["a", "b", "-", r"\.", ".", r"\d", r"\w", r"\s", r"\D", "[a-c]", "[^a]", r"[\d_]", "[^\\w]", "é", r"\x61", r"\"", "[-a]"]
)
times = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{1,}", "{0,2}", "*?", "+?", "??"])
regexes = st.recursive(
    st.tuples(atoms, times).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.tuples(st.lists(inner, min_size=1, max_size=3).map("|".join), times).map(lambda told: f"(?:{told[0]}){told[1]}"),
        st.tuples(inner, times).map(lambda told: f"({told[0]}){told[1]}"),
    ),
    max_leaves=5,
)


@bounded
@given(regexes, st.lists(answers, min_size=1, max_size=6), st.data())
def test_gbnf_accepts_what_the_regex_does(pattern: str, others: list[str], data: st.DataObject) -> None:
    obeying = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True, alphabet=st.sampled_from('abc-1 _."éxy')))
    gbnf = guided.regex_to_gbnf(pattern)
    for answer in [obeying, *others]:
        accepted = re.fullmatch(pattern, answer, re.ASCII) is not None
        assert by_gbnf(gbnf, answer) == accepted, (pattern, gbnf, answer)
        assert not answer.isascii() or by_regex(pattern, answer) == accepted


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^abc$", ["abc"], ["ab", "abcd"]),
        ("^a|b$", ["a", "b"], ["ab"]),
        ("(^a)b|(c$)", ["ab", "c"], ["a"]),
        (r"a{0}b", ["b"], ["ab"]),
        (r"(a*)*", ["", "aaa"], ["b"]),
        (r"(a?b*){2,}c", ["c", "abbac"], ["", "ca"]),
        (r"((a|)+)+", ["", "aa"], ["b"]),
        (r"[\u00e0-\u00ff]+", ["éà"], ["e"]),
        (r"\x{41}\U00000042", ["AB"], ["A"]),
        (r"[^\n\]\\\"^-]", ["a", "["], ["\n", "]", "\\", '"', "^", "-"]),
        (r"\t\\\[\"", ['\t\\["'], ["t"]),
        (r"(?P<year>\d{4})-(?<month>\d\d)", ["2026-11"], ["2026-1"]),
        (r"(?:)", [""], ["a"]),
    ],
)
def test_gbnf_of_a_regex(pattern: str, yes: list[str], no: list[str]) -> None:
    gbnf = guided.regex_to_gbnf(pattern)
    assert [answer for answer in yes if not by_gbnf(gbnf, answer)] == []
    assert [answer for answer in no if by_gbnf(gbnf, answer)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(?=a)b",
            "(?!a)b",
            "(?<=a)b",
            "(?<!a)b",
            r"(a)\1",
            r"(?P<x>a)(?P=x)",
            r"\bword\b",
            r"\Ba",
            "(?i)a",
            "(?s:.)",
            r"\p{L}",
            r"\Aa",
            r"a\Z",
        ),
        *(
            "a$b",
            "a^b",
            "(a$)*",
            "a**",
            "a++",
            "a{,2}",
            "{",
            "(a",
            "a)",
            "[a",
            "[]",
            "[^]",
            "[b-a]",
            r"[a-\d]",
            "[a&&b]",
            "[[:alpha:]]",
            "\\",
        ),
        *("a{2,1}", r"[^\s\S]", r"\ud800", "a{3000}", "((a{100}){100}){100}", "(" * 150 + "a" + ")" * 150, "^*"),
    ],
)
def test_what_no_two_engines_understand_alike_is_not_converted(pattern: str) -> None:
    with pytest.raises(Unsupported):
        guided.regex_to_gbnf(pattern)


@bounded
@given(st.text(max_size=30))
def test_any_text_is_a_regex_or_refused(pattern: str) -> None:
    try:
        gbnf = guided.regex_to_gbnf(pattern)
    except Unsupported:
        return
    assert gbnf.startswith("root ::= ")


nasty = st.text(st.sampled_from("ab.|()[]{}*+?^$\\\"'-#& \n\té/"), min_size=1, max_size=6)


@bounded
@given(st.lists(nasty, min_size=1, max_size=4), st.lists(nasty, max_size=4))
def test_a_choice_said_another_way_is_the_same_choice(options: list[str], others: list[str]) -> None:
    pattern, gbnf = guided.choice_to_regex(options), guided.choice_to_gbnf(options)
    for answer in [*options, *others, options[0] + "x", ""]:
        chosen = answer in options
        assert (re.fullmatch(pattern, answer) is not None) == chosen
        assert by_regex(pattern, answer) == chosen
        assert by_gbnf(gbnf, answer) == chosen
    assert by_gbnf(guided.regex_to_gbnf(pattern), options[0])


@bounded
@given(regexes, st.lists(answers, max_size=5))
def test_anchors_hold_all_of_a_pattern_and_are_put_once(pattern: str, others: list[str]) -> None:
    held = guided.anchored(pattern)
    assert guided.anchored(held) == held
    for answer in others:
        assert (re.search(held.removesuffix("$") + r"\Z", answer) is not None) == (re.fullmatch(pattern, answer) is not None)


@pytest.mark.parametrize(("pattern", "held"), [("^a$", "^a$"), ("a", "^(?:a)$"), ("^a|b$", "^(?:^a|b$)$"), (r"^a\$", r"^(?:^a\$)$")])
def test_anchored(pattern: str, held: str) -> None:
    assert guided.anchored(pattern) == held


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ('root ::= "a"', "gbnf"),
        ('# a comment\nroot ::= item+\nitem ::= "a: b"', "gbnf"),
        ('start: "a" | b\nb: /x+/', "lark"),
        ('%llguidance {}\nstart: "::="', "lark"),
        ('?start: expr\nexpr: "1"', "lark"),
        ("part[lazy]: /a/\nstart: part", "lark"),
        ('TERM.2: "a"\nstart: TERM', "lark"),
        ("", "gbnf"),
    ],
)
def test_a_grammars_language_is_told_by_its_first_rule(text: str, language: str) -> None:
    assert guided.grammar_language(text) == language


PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b.c", 1, None]}, "minItems": 1, "maxItems": 3},
        "born": {"anyOf": [{"type": "string", "format": "date"}, {"$ref": "#/$defs/none"}]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}[^a]$"},
    },
    "required": ["age", "code"],
    "additionalProperties": False,
    "$defs": {"none": {"type": "null"}},
}
people = st.fixed_dictionaries(
    {"age": st.integers(-5, 10**6), "code": st.sampled_from(["ABC", "ZZ ", "AB"])},
    optional={
        "name": st.text("abé", max_size=9),
        "tags": st.lists(st.sampled_from(["a", "b.c", 1, None, 2]), max_size=4),
        "born": st.sampled_from(["2026-11-21", None, "x"]),
    },
)


@bounded
@given(people, st.sampled_from(["", " ", "\n", "  "]))
def test_a_schemas_regex_holds_the_schema_and_the_white_space(person: dict[str, Any], gap: str) -> None:
    pattern = guided.schema_to_regex(Raw(json.dumps(PERSON).encode()), r"[ \n]?")
    ordered = {key: person[key] for key in PERSON["properties"] if key in person}
    said = json.dumps(ordered, ensure_ascii=False, separators=(f",{gap}", f":{gap}"))
    judge: Any = jsonschema.Draft202012Validator(PERSON)
    obeys = judge.is_valid(person) and person.get("born") != "x" and len(gap) < 2
    assert (re.fullmatch(pattern, said) is not None) == obeys
    assert by_regex(pattern, said) == obeys


@pytest.mark.parametrize(
    "schema",
    [
        *(True, {}, {"type": "object"}, {"type": "array"}, {"type": "integer", "minimum": 3}, {"type": "number", "multipleOf": 2}),
        *({"type": "array", "items": {"type": "null"}, "uniqueItems": True}, {"not": {"type": "null"}}, {"oneOf": [{"type": "null"}]}),
        *({"allOf": [{"type": "null"}]}, {"type": "string", "pattern": "^a$", "maxLength": 3}, {"type": "string", "format": "ipv4"}),
        *({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": True}, {"enum": [{"a": 1}]}, {"const": 1.5}),
        *({"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 1}, {"if": {}, "then": {}}, {"$ref": "#/$defs/x"}),
        *(
            {"$ref": "#"},
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            {"type": "string", "pattern": 'a"b'},
            {"type": ["string", "null"], "maxLength": 2},
        ),
        *(
            {"type": "object", "properties": {"a": {"type": "null"}}, "patternProperties": {"^b": {}}},
            {"type": "object", "properties": {}, "required": ["a"]},
        ),
    ],
    ids=str,
)
def test_a_keyword_that_a_regex_cannot_say_is_refused_and_never_passed_over(schema: Any) -> None:
    with pytest.raises(Unsupported):
        guided.schema_to_regex(Raw(json.dumps(schema).encode()), None)
