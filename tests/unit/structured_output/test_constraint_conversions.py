"""Conversions of constraints: the converted form accepts exactly the same texts."""

import json
import re
import zlib
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from msgspec import Raw

from providers.canonical.errors import Unsupported
from providers.structured_output.gbnf import choice_to_gbnf, regex_to_gbnf
from providers.structured_output.gbnf_to_lark import gbnf_to_lark
from providers.structured_output.grammar_language import detect_grammar_language
from providers.structured_output.regexes import anchor_regex, choice_to_regex, unrolled_size
from providers.structured_output.schema_regex import schema_to_regex
from tests.support.strategies.chat_strategies import bounded

BYTE_TOKENIZER = LLTokenizer("byte")
letters = st.sampled_from('abc-1 _\n."é')
candidate_texts = st.text(letters, max_size=6)


def accepts(grammar: str, text: str) -> bool:
    matcher = LLMatcher(BYTE_TOKENIZER, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def gbnf_accepts(gbnf: str, text: str) -> bool:
    return accepts(LLMatcher.grammar_from_lark(gbnf_to_lark(gbnf)), text)


def regex_accepts(pattern: str, text: str) -> bool:
    return accepts(LLMatcher.grammar_from_regex(pattern), text)


atoms = st.sampled_from(
    ["a", "b", "-", r"\.", ".", r"\d", r"\w", r"\s", r"\D", "[a-c]", "[^a]", r"[\d_]", "[^\\w]", "é", r"\x61", r"\"", "[-a]"]
)
times = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{1,}", "{0,2}", "*?", "+?", "??"])
regexes = st.recursive(
    st.tuples(atoms, times).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.tuples(st.lists(inner, min_size=1, max_size=3).map("|".join), times).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(inner, times).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=5,
)


@bounded
@given(regexes, st.lists(candidate_texts, min_size=1, max_size=6), st.data())
def test_gbnf_of_a_regex_accepts_the_same_texts(pattern: str, others: list[str], data: st.DataObject) -> None:
    matching = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True, alphabet=st.sampled_from('abc-1 _."éxy')))
    gbnf = regex_to_gbnf(pattern)
    for text in [matching, *others]:
        accepted = re.fullmatch(pattern, text, re.ASCII) is not None
        assert gbnf_accepts(gbnf, text) == accepted, (pattern, gbnf, text)
        assert not text.isascii() or regex_accepts(pattern, text) == accepted


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
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
def test_gbnf_of_a_regex_accepts_and_rejects_the_expected_texts(pattern: str, accepted: list[str], rejected: list[str]) -> None:
    gbnf = regex_to_gbnf(pattern)
    assert [text for text in accepted if not gbnf_accepts(gbnf, text)] == []
    assert [text for text in rejected if gbnf_accepts(gbnf, text)] == []


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
def test_ambiguous_or_oversized_regex_is_not_converted_to_gbnf(pattern: str) -> None:
    with pytest.raises(Unsupported):
        regex_to_gbnf(pattern)


@bounded
@given(st.text(max_size=30))
def test_any_text_becomes_gbnf_or_is_refused_as_unsupported(pattern: str) -> None:
    try:
        gbnf = regex_to_gbnf(pattern)
    except Unsupported:
        return
    assert gbnf.startswith("root ::= ")


class GbnfPiece:
    """A piece of GBNF, the equivalent regex, and the rules to which the piece refers."""

    def __init__(self, gbnf: str, pattern: str, rules: tuple[str, ...] = ()) -> None:
        self.gbnf, self.pattern, self.rules = gbnf, pattern, rules


signs = st.sampled_from('ab"\\\n\t-]^[é/.')
NAMED_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "]": "\\]", "[": "\\[", "-": "\\-", "^": "\\^"}
code_escapes = st.sampled_from(["\\x{:02x}", "\\u{:04X}", "\\U{:08x}"])


def escaped_sign(sign: str, code: str | None) -> str:
    return NAMED_ESCAPES.get(sign, sign) if code is None else code.format(ord(sign))


escaped_signs = st.tuples(signs, st.none() | code_escapes)
literals = st.lists(escaped_signs, max_size=3).map(
    lambda each: GbnfPiece('"' + "".join(escaped_sign(*one) for one in each) + '"', "".join(re.escape(sign) for sign, _ in each))
)
classes = st.tuples(st.sampled_from(["", "^"]), st.lists(escaped_signs, min_size=1, max_size=3), st.sampled_from(["", "a-c", "-"])).map(
    lambda each: GbnfPiece(
        f"[{each[0]}{''.join(escaped_sign(*one) for one in each[1])}{each[2]}]",
        f"[{each[0]}{''.join(re.escape(sign) for sign, _ in each[1])}{each[2].replace('-', '-' if len(each[2]) > 1 else chr(92) + '-')}]",
    )
)
repetitions = st.sampled_from([("*", "*"), ("+", "+"), ("?", "?"), ("{2}", "{2}"), (" { 1 , 2 }", "{1,2}"), ("{1,}", "{1,}"), (" *", "*")])
gaps = st.sampled_from([" ", "  ", "\n  ", " # a comment: root ::= x\n  "])


def combined_pieces(inner: st.SearchStrategy[GbnfPiece]) -> st.SearchStrategy[GbnfPiece]:
    return st.one_of(
        st.tuples(st.lists(inner, min_size=1, max_size=3), gaps).map(
            lambda each: GbnfPiece(
                "(" + each[1].join(one.gbnf for one in each[0]) + ")",
                "".join(f"(?:{one.pattern})" for one in each[0]),
                sum((one.rules for one in each[0]), ()),
            )
        ),
        st.tuples(st.lists(inner, min_size=1, max_size=3), gaps).map(
            lambda each: GbnfPiece(
                "(" + f"{each[1]}|{each[1]}".join(one.gbnf for one in each[0]) + ")",
                "|".join(f"(?:{one.pattern})" for one in each[0]),
                sum((one.rules for one in each[0]), ()),
            )
        ),
        st.tuples(inner, repetitions).map(
            lambda each: GbnfPiece(f"({each[0].gbnf}){each[1][0]}", f"(?:{each[0].pattern}){each[1][1]}", each[0].rules)
        ),
        inner.map(
            lambda one: GbnfPiece(
                f"part-{len(one.rules)}x{zlib.crc32(one.gbnf.encode())}",
                one.pattern,
                (*one.rules, f"part-{len(one.rules)}x{zlib.crc32(one.gbnf.encode())} ::= {one.gbnf}"),
            )
        ),
    )


@bounded
@given(st.recursive(literals | classes, combined_pieces, max_leaves=4), st.lists(st.text(signs, max_size=4), max_size=5), st.data())
def test_gbnf_converted_to_lark_accepts_the_same_texts(piece: GbnfPiece, others: list[str], data: st.DataObject) -> None:
    gbnf = "\n".join([f"root ::= {piece.gbnf}", *dict.fromkeys(piece.rules)])
    matching = data.draw(st.from_regex(piece.pattern, fullmatch=True, alphabet=st.sampled_from('abc"\\\n\t-]^[é/.z')))
    for text in [matching, *others]:
        assert gbnf_accepts(gbnf, text) == (re.fullmatch(piece.pattern, text) is not None), (gbnf, piece.pattern, text)


special_texts = st.text(st.sampled_from("ab.|()[]{}*+?^$\\\"'-#& \n\té/"), min_size=1, max_size=6)


@bounded
@given(st.lists(special_texts, min_size=1, max_size=4), st.lists(special_texts, max_size=4))
def test_choice_as_regex_or_gbnf_accepts_only_its_options(options: list[str], others: list[str]) -> None:
    pattern, gbnf = choice_to_regex(options), choice_to_gbnf(options)
    for text in [*options, *others, options[0] + "x", ""]:
        chosen = text in options
        assert (re.fullmatch(pattern, text) is not None) == chosen
        assert regex_accepts(pattern, text) == chosen
        assert gbnf_accepts(gbnf, text) == chosen
    assert gbnf_accepts(regex_to_gbnf(pattern), options[0])


@bounded
@given(regexes, st.lists(candidate_texts, max_size=5))
def test_anchored_regex_matches_the_whole_text_and_anchoring_is_idempotent(pattern: str, others: list[str]) -> None:
    anchored_pattern = anchor_regex(pattern)
    assert anchor_regex(anchored_pattern) == anchored_pattern
    for text in others:
        assert (re.search(anchored_pattern.removesuffix("$") + r"\Z", text) is not None) == (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        *(("", 0), ("a", 1), ("a{3}", 3), ("(ab){3}c", 7), ("((a{10}){10}){10}", 1000), ("[a{99}]{2}", 2), (r"\p{L}{4}x", 5), ("a|b*", 2)),
        *(
            ("(?:a{2}|b){2,}", 6),
            ("(?P<x>a){7}", 7),
            (r"\{9\}", 3),
            ("(?i:a{5})", 5),
            (")a{9}", 9),
            ("a{1,100000}", 100_000),
            ("[a" * 9, 1),
        ),
    ],
)
def test_unrolled_size_of_a_regex_multiplies_its_repetitions(pattern: str, size: int) -> None:
    assert unrolled_size(pattern) == size


@pytest.mark.parametrize(("pattern", "anchored"), [("^a$", "^a$"), ("a", "^(?:a)$"), ("^a|b$", "^(?:^a|b$)$"), (r"^a\$", r"^(?:^a\$)$")])
def test_anchors_are_added_only_where_they_are_missing(pattern: str, anchored: str) -> None:
    assert anchor_regex(pattern) == anchored


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
def test_grammar_language_is_detected_from_its_first_rule(text: str, language: str) -> None:
    assert detect_grammar_language(text) == language


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
def test_schema_regex_accepts_valid_objects_with_the_allowed_whitespace(person: dict[str, Any], gap: str) -> None:
    pattern = schema_to_regex(Raw(json.dumps(PERSON).encode()), r"[ \n]?")
    ordered = {key: person[key] for key in PERSON["properties"] if key in person}
    text = json.dumps(ordered, ensure_ascii=False, separators=(f",{gap}", f":{gap}"))
    validator: Any = jsonschema.Draft202012Validator(PERSON)
    is_valid = validator.is_valid(person) and person.get("born") != "x" and len(gap) < 2
    assert (re.fullmatch(pattern, text) is not None) == is_valid
    assert regex_accepts(pattern, text) == is_valid


names = st.sampled_from(["a", "b c", "é.", "$ref"])
scalars: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(["integer", "number", "boolean", "null", "string"]).map(lambda kind: {"type": kind}),
    st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda two: {"type": "string", "minLength": min(two), "maxLength": max(two)}),
    st.sampled_from(["date", "uuid"]).map(lambda name: {"type": "string", "format": name}),
    st.sampled_from(["^a+$", "b", "^[^a]{1,2}", r"\d$", "^(x|yz)?$"]).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.lists(st.sampled_from(["a.b", 1, None, True, 'q"']), min_size=1, max_size=3).map(lambda values: {"enum": values}),
    st.sampled_from(["a|b", -3, False]).map(lambda value: {"const": value}),
    st.lists(st.sampled_from(["integer", "null", "string"]), min_size=1, max_size=2, unique=True).map(lambda kinds: {"type": kinds}),
)
schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.dictionaries(names, inner, min_size=1, max_size=3).flatmap(
            lambda inside: st.lists(st.sampled_from(sorted(inside)), unique=True).map(
                # Closed: of properties that a schema does not name, the regex takes none.
                lambda required: {"type": "object", "properties": inside, "required": required, "additionalProperties": False}
            )
        ),
        st.tuples(inner, st.integers(0, 2), st.integers(0, 2)).map(
            lambda each: {"type": "array", "items": each[0], "minItems": min(each[1:]), "maxItems": max(each[1:])}
        ),
        st.tuples(inner, st.integers(0, 2)).map(lambda each: {"type": "array", "items": each[0], "minItems": each[1]}),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    ),
    max_leaves=4,
)


words = st.sampled_from(["", "a", "aa", "b", "ab", "x", "yz", "q1", "2026-11-21", "2026-02-30", "12345678-1234-1234-1234-1234567890ab"])
other_values: list[Any] = [0, -3, 10**9, 1.5, True, False, None, "a.b", "a|b", [], {}]
anything: st.SearchStrategy[Any] = words | st.sampled_from(other_values)


def mostly_valid_values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that mostly satisfy a schema, with their properties in its order."""
    match schema:
        case {"properties": {**inside}}:
            return st.fixed_dictionaries({}, optional={name: mostly_valid_values(each) for name, each in inside.items()}).map(
                lambda drawn: {name: drawn[name] for name in inside if name in drawn}
            )
        case {"items": item}:
            return st.lists(mostly_valid_values(item), max_size=3)
        case {"anyOf": branches}:
            return st.one_of(*map(mostly_valid_values, branches))
        case {"enum": values}:
            return st.sampled_from(values) | anything
        case _:
            return anything


@bounded
@given(
    schemas.flatmap(lambda schema: st.tuples(st.just(schema), mostly_valid_values(schema))),
    st.sampled_from(["", " ", "\n"]),
    st.integers(0, 40),
)
def test_schema_regex_accepts_exactly_the_valid_values(schema_and_value: tuple[dict[str, Any], Any], gap: str, at: int) -> None:
    schema, value = schema_and_value
    pattern = schema_to_regex(Raw(json.dumps(schema).encode()), r"[ \n]?")
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    text = json.dumps(value, ensure_ascii=False, separators=(f"{gap},{gap}", f"{gap}:{gap}"))
    assert (re.fullmatch(pattern, text) is not None) == validator.is_valid(value)
    assert regex_accepts(pattern, text) == validator.is_valid(value)
    broken = text[:at] + text[at + 1 :]
    assert re.fullmatch(pattern, broken) is None or validator.is_valid(json.loads(broken))


@pytest.mark.parametrize(
    ("date", "is_date"),
    [("2026-11-21", True), ("2024-02-29", True), ("2000-02-29", True), ("1900-02-29", False), ("2026-02-30", False), ("2026-04-31", False)],
)
def test_date_format_regex_accepts_only_calendar_dates(date: str, is_date: bool) -> None:
    pattern = schema_to_regex(Raw(b'{"type":"string","format":"date"}'), None)
    assert (re.fullmatch(pattern, f'"{date}"') is not None) == is_date


@pytest.mark.parametrize(
    "schema",
    [
        *(
            {"type": "string", "maxLength": 10**9},
            {"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 1000}},
            {"type": "object", "properties": {f"p{at}": {"type": "integer"} for at in range(3000)}},
        ),
        *(True, {}, {"type": "object"}, {"type": "array"}, {"type": "integer", "minimum": 3}, {"type": "number", "multipleOf": 2}),
        *({"type": "array", "items": {"type": "null"}, "uniqueItems": True}, {"not": {"type": "null"}}, {"oneOf": [{"type": "null"}]}),
        *({"allOf": [{"type": "null"}]}, {"type": "string", "pattern": "^a$", "maxLength": 3}, {"type": "string", "format": "idn-email"}),
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
    ids=lambda schema: f"{schema!s:.60}",
)
def test_schema_that_a_regex_cannot_express_is_refused(schema: Any) -> None:
    with pytest.raises(Unsupported):
        schema_to_regex(Raw(json.dumps(schema).encode()), None)
