"""outlines-core beside jsonschema-rs and llguidance: what it writes for listed schemas, and what it drops from others.

docs/decisions/010-jsonschema-and-outlines-core.md has the reasons.
"""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from msgspec import Raw

from app.gateway.structured_output import constraint_checks
from app.gateway.structured_output.checker.errors import CheckFailed
from app.gateway.structured_output.checker.meta_schemas import META_SCHEMA_VALIDATORS
from app.gateway.structured_output.checker.schema_checks import build_validator
from app.gateway.structured_output.checker.whitespace_regex import build_regex, write_whitespace_regex
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from providers.catalogue import DIALECTS
from providers.engines.vllm.adapter import VLLM
from providers.structured_output.regexes import choice_to_regex
from providers.structured_output.schema_regex import schema_to_regex

ROOT = Path(__file__).parents[3]
BYTES = LLTokenizer("byte")
bounded = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

WHITESPACES = ["", "[ ]?", r"[ \n]?", " ", r"\n| "]
GAPS: Mapping[str, list[str]] = {
    "": [""],
    "[ ]?": ["", " "],
    r"[ \n]?": ["", " ", "\n"],
    " ": [" "],
    r"\n| ": ["\n", " "],
}


def regex_accepts(pattern: str, text: str) -> bool:
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_regex(pattern), log_level=0)
    # llguidance panics, rarely, over alternatives that begin alike; its error is then no word about the regex.
    assume("panic" not in matcher.get_error())
    assert not matcher.is_error(), matcher.get_error()
    encoded = text.encode()
    return matcher.try_consume_tokens(list(encoded)) == len(encoded) and matcher.is_accepting()


def is_valid(schema: Any, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid(value)


names = st.sampled_from(["a", "b c", "é.", "$ref", "enum", "x|y", "{1}"])
literals: st.SearchStrategy[Any] = st.sampled_from(["", "a.b", 'q"\\', "line\nend", "(x|y)", "é\f", 0, 17, None, True, False])
scalars: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(["integer", "number", "boolean", "null", "string"]).map(lambda kind: {"type": kind}),
    st.lists(st.sampled_from(["integer", "number", "boolean", "null", "string"]), min_size=1, unique=True).map(
        lambda kinds: {"type": kinds}
    ),
    st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda two: {"type": "string", "minLength": min(two), "maxLength": max(two)}),
    st.integers(0, 2).map(lambda count: {"type": "string", "minLength": count}),
    st.integers(0, 2).map(lambda count: {"type": "string", "maxLength": count, "title": "A title."}),
    st.lists(literals, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    st.lists(st.sampled_from(["a", 'b"c']), min_size=1, max_size=2).map(lambda values: {"type": "string", "enum": values}),
    literals.map(lambda value: {"const": value, "description": "What it is for.", "default": 1}),
    st.sampled_from(["d0", "d1", "d2", "d3"]).map(lambda name: {"$ref": f"#/$defs/{name}"}),
)


def objects_of(inner: st.SearchStrategy[Any], min_required: int) -> st.SearchStrategy[dict[str, Any]]:
    closing: list[dict[str, Any]] = [{}, {"additionalProperties": False}]
    return st.tuples(st.dictionaries(names, inner, min_size=1, max_size=3), st.sampled_from(closing)).flatmap(
        lambda drawn: st.lists(st.sampled_from(sorted(drawn[0])), min_size=min_required, unique=True).map(
            lambda required: {"type": "object", "properties": drawn[0], "required": required, **drawn[1]}
        )
    )


def arrays_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.tuples(inner, st.integers(0, 2), st.integers(0, 2)).map(
            lambda each: {"type": "array", "items": each[0], "minItems": min(each[1:]), "maxItems": max(each[1:])}
        ),
        st.tuples(inner, st.integers(0, 2)).map(lambda each: {"type": "array", "items": each[0], "minItems": each[1]}),
    )


def any_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches})


with_whitespace = st.recursive(scalars, lambda inner: objects_of(inner, 1) | any_of(inner), max_leaves=4)
without_whitespace = st.recursive(scalars, lambda inner: objects_of(inner, 0) | any_of(inner) | arrays_of(inner), max_leaves=4)


@st.composite
def listed_schemas(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A schema with definitions that refer to each other, and a white space with which it is listed."""
    whitespace = draw(st.sampled_from(WHITESPACES))
    schemas = with_whitespace if whitespace else without_whitespace
    definitions: dict[str, Any] = {
        "d0": {"type": "boolean"},
        "d1": {"anyOf": [{"$ref": "#/$defs/d0"}, {"type": "integer"}]},
        "d2": {"type": "object", "properties": {"a": {"$ref": "#/$defs/d1"}}, "required": ["a"]},
        "d3": {"$ref": "#/$defs/d2"},
    }
    return {**draw(schemas), "$defs": definitions}, whitespace


PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}
words = st.sampled_from(["", "a", "aa", "abc", "abcd", 'q"\\', "line\nend", "é", "b c"])
numbers = st.sampled_from([0, -3, 10**9, 1.5, -2.5e-7, 1.5e-30, True, False])
other_values: list[Any] = [None, [], {}]
anything: st.SearchStrategy[Any] = words | numbers | st.sampled_from(other_values) | literals


def mostly_valid_values(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that obey a schema more often than not, their properties in its order."""
    match schema:
        case {"$ref": str(ref)}:
            return mostly_valid_values(root["$defs"][ref.rpartition("/")[2]], root)
        case {"properties": {**inside}, "required": [*required]}:
            optional = {name: mostly_valid_values(each, root) for name, each in inside.items() if name not in required}
            drawn_values = {name: mostly_valid_values(inside[name], root) for name in required}
            return st.fixed_dictionaries(drawn_values, optional=optional).map(
                lambda drawn: {name: drawn[name] for name in inside if name in drawn}
            )
        case {"items": item}:
            return st.lists(mostly_valid_values(item, root), max_size=3)
        case {"anyOf": [*branches]}:
            return st.one_of(*(mostly_valid_values(branch, root) for branch in branches))
        case {"enum": [*values]}:
            return st.sampled_from(values) | anything
        case {"const": value}:
            return st.just(value) | anything
        case _:
            return anything


def write_json(value: Any, gap: Callable[[], str]) -> str:
    """JSON with white space in each place that schema_regex.py allows it in."""
    match value:
        case {**members}:
            pairs = [f"{json.dumps(name, ensure_ascii=False)}{gap()}:{gap()}{write_json(each, gap)}" for name, each in members.items()]
            return "{" + gap() + "".join(pair if at == 0 else f"{gap()},{gap()}{pair}" for at, pair in enumerate(pairs)) + gap() + "}"
        case [*items]:
            return "[" + gap() + ",".join(write_json(each, gap) for each in items) + gap() + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


@bounded
@given(listed_schemas(), st.data())
def test_regex_of_a_listed_schema_accepts_exactly_its_valid_values(listed: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    schema, whitespace = listed
    regex = write_whitespace_regex(json.dumps(schema), whitespace)
    assert regex is not None
    value = data.draw(mostly_valid_values(schema, schema))
    text = write_json(value, lambda: data.draw(st.sampled_from(GAPS[whitespace])))
    assert (re.fullmatch(regex, text) is not None) == is_valid(schema, value), (regex, text)
    assert regex_accepts(regex, text) == is_valid(schema, value)


@bounded
@given(listed_schemas(), st.data())
def test_every_text_of_a_listed_schemas_regex_is_valid_json_for_the_schema(listed: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    schema, whitespace = listed
    regex = write_whitespace_regex(json.dumps(schema), whitespace)
    assert regex is not None
    text = data.draw(st.from_regex(regex, fullmatch=True))
    assume(re.search(r"[eE][+-]\d{3}", text) is None)  # Python has no such numbers
    assert is_valid(schema, json.loads(text)), (regex, text)
    assert regex_accepts(regex, text)


@bounded
@given(listed_schemas(), st.data())
def test_our_own_regex_accepts_the_same_texts_but_for_escapes(listed: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    """White space must mean the same for all schemas, and no schema may be accepted only because it is on the list."""
    schema, whitespace = listed
    regex, own_regex = write_whitespace_regex(json.dumps(schema), whitespace), schema_to_regex(Raw(json.dumps(schema).encode()), whitespace)
    assert regex is not None
    text = data.draw(st.from_regex(own_regex, fullmatch=True))
    # A number's exponent has a sign in outlines-core's regex, and no string has the control characters from DEL on.
    is_writable = re.search(r"\d[eE]\d|[\x7f-\x9f]", text) is None
    assert re.fullmatch(regex, text) is not None or not is_writable, (regex, own_regex, text)
    text = data.draw(st.from_regex(regex, fullmatch=True))
    assert re.fullmatch(own_regex, text) is not None or "\\" in text, (regex, own_regex, text)


# What outlines-core 0.2.14 leaves out without an error: (schema, a text that its regex accepts and the schema does not).
DROPPED: Mapping[str, tuple[dict[str, Any], str]] = {
    "minimum": ({"type": "integer", "minimum": 3}, "2"),
    "multipleOf": ({"type": "integer", "multipleOf": 2}, "3"),
    "pattern beside maxLength": ({"type": "string", "pattern": "^a*$", "maxLength": 3}, '"b"'),
    "uniqueItems": ({"type": "array", "items": {"type": "null"}, "uniqueItems": True}, "[null, null]"),
    "required without its property": ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}, "{}"),
    "minProperties": ({"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 1}, "{}"),
    "not beside a type": ({"type": "null", "not": {"type": "null"}}, "null"),
    "a type beside an enum": ({"type": "integer", "enum": ["a"]}, '"a"'),
    "a count with a fraction": ({"type": "string", "minLength": 2.0}, '"a"'),
    "dates": ({"type": "string", "format": "date"}, '"2026-02-30"'),
    "a quote that a pattern allows": ({"type": "string", "pattern": "^.$"}, '"""'),
    "the escape in a property's name": ({"type": "object", "properties": {'"': {"type": "null"}}, "required": ['"']}, '{""":null}'),
}
CHAIN: dict[str, Any] = {
    f"d{at}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{at - 1}"}}, "required": ["a"]} for at in range(1, 5)
}
FIVE_REFS: dict[str, Any] = {"$defs": {"d0": {"type": "null"}, **CHAIN}, "$ref": "#/$defs/d4"}


@pytest.mark.parametrize("keyword", DROPPED)
def test_outlines_core_silently_drops_what_is_not_on_the_list(keyword: str) -> None:
    schema, text = DROPPED[keyword]
    assert re.fullmatch(build_regex(json.dumps(schema), "[ ]?"), text), "it may be on the list now: see the decision page"
    with contextlib.suppress(json.JSONDecodeError):
        assert not is_valid(schema, json.loads(text))
    assert write_whitespace_regex(json.dumps(schema), "") is None


def test_outlines_core_silently_drops_the_schema_of_additional_properties() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}}
    regex = build_regex(json.dumps(schema), "")
    assert is_valid(schema, {"a": None, "b": 1}) and re.fullmatch(regex, '{"a":null,"b":1}') is None
    assert write_whitespace_regex(json.dumps(schema), "") is None


def test_outlines_core_silently_writes_an_empty_object_for_a_deep_ref() -> None:
    four_refs = {**FIVE_REFS, "$ref": "#/$defs/d3"}
    assert re.fullmatch(build_regex(json.dumps(four_refs), ""), '{"a":{"a":{"a":null}}}')
    assert write_whitespace_regex(json.dumps(four_refs), "") is not None
    assert re.fullmatch(build_regex(json.dumps(FIVE_REFS), ""), '{"a":{"a":{"a":{}}}}')
    assert write_whitespace_regex(json.dumps(FIVE_REFS), "") is None


@pytest.mark.parametrize(
    ("schema", "whitespace"),
    [
        *((each, "") for each in (True, False, {}, {"type": "object"}, {"type": "array"}, {"$ref": "#"}, {"oneOf": [{"type": "null"}]})),
        *(
            (each, "")
            for each in ({"type": "string", "format": "uuid"}, {"enum": [-1]}, {"enum": [10**20]}, {"const": "a-b"}, {"const": 1.5})
        ),
        *((each, "") for each in ({"type": "string", "minLength": 3, "maxLength": 2}, {"$ref": "#/properties/a"}, {"$ref": "#/$defs/x"})),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, ""),
        ({"type": "array", "items": {"type": "null"}}, "[ ]?"),
        ({"type": "object", "properties": {"a": {"type": "null"}}}, "[ ]?"),
        ({"type": "string", "maxLength": 90_000}, ""),
        ({"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(1_100)}, "required": ["p0"]}, ""),
        ({"enum": ["x" * 30_000]}, ""),
    ],
    ids=lambda each: f"{each!s:.60}",
)
def test_schema_that_is_not_listed_is_left_to_our_own_regex(schema: Any, whitespace: str) -> None:
    assert write_whitespace_regex(json.dumps(schema), whitespace) is None


def test_whitespace_with_alternatives_stays_one_group() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    regex = write_whitespace_regex(json.dumps(schema), r"\n| ")
    assert regex is not None
    assert re.fullmatch(regex, '{ "a"\n: null\n}') and not re.fullmatch(regex, "{ ")


plain_texts = st.text(st.characters(min_codepoint=32, exclude_characters='"\\\x7f', exclude_categories=["Cs"]), min_size=1, max_size=8)


@bounded
@given(st.lists(plain_texts, min_size=1, max_size=4), st.lists(plain_texts, max_size=4))
def test_our_regex_of_choices_agrees_with_outlines_core_on_an_enum(options: list[str], others: list[str]) -> None:
    """It writes no regex for choices themselves, but one for an enum, whose texts are in quotes and in JSON's escapes."""
    enum_regex = build_regex(json.dumps({"enum": options}), "")
    for text in [*options, *others, options[0] + "x", ""]:
        assert (re.fullmatch(enum_regex, f'"{text}"') is not None) == (re.fullmatch(choice_to_regex(options), text) is not None)


def keyword_values(subschemas: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "type": st.sampled_from(["string", "objct", "null", 3, ["string", "null"], ["string", "x"], ["null", "null"], []]),
        "properties": st.dictionaries(st.sampled_from(["a", "type"]), subschemas, max_size=2) | st.just([]),
        "items": subschemas | st.lists(subschemas, max_size=2),
        "required": st.lists(st.sampled_from(["a", "b", 1]), max_size=2) | st.just(True),
        "anyOf": st.lists(subschemas, max_size=2) | subschemas,
        "not": subschemas,
        "minLength": st.sampled_from([0, 3, -1, "1", None]),
        "multipleOf": st.sampled_from([1, 0, -1, 0.5]),
        "minimum": st.sampled_from([1, "1", True]),
        "exclusiveMinimum": st.sampled_from([1, True]),
        "enum": st.lists(st.sampled_from([1, "a", None]), max_size=3) | st.just("a"),
        "uniqueItems": st.sampled_from([True, "yes"]),
        "additionalProperties": subschemas,
        "description": st.sampled_from(["What it is for.", 3]),
        "$defs": st.dictionaries(st.just("a"), subschemas, max_size=1),
        "unknown": st.sampled_from([1, "objct"]),
    }


def with_keywords(subschemas: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(sorted(keyword_values(subschemas))), st.none(), min_size=1, max_size=3).flatmap(
        lambda chosen: st.fixed_dictionaries({name: keyword_values(subschemas)[name] for name in chosen})
    )


simple_schemas: st.SearchStrategy[Any] = st.sampled_from([True, False, {}, 3, "a"])
keyword_schemas = with_keywords(st.recursive(simple_schemas, with_keywords, max_leaves=3))
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
EXAMPLES: list[dict[str, Any]] = [
    {"type": "objct"},
    {"properties": {"a": {"type": "integer", "minLength": -1}}},
    {"items": [{"type": "null"}]},
    {"exclusiveMinimum": True, "minimum": 1},
    {"exclusiveMinimum": 1},
    {"required": []},
]


@pytest.mark.parametrize("draft", META_SCHEMA_VALIDATORS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(keyword_schemas | st.sampled_from(EXAMPLES))
def test_jsonschema_and_jsonschema_rs_agree_on_which_schemas_are_valid(draft: str, schema: dict[str, Any]) -> None:
    if draft.endswith("draft-04/schema"):
        assume("enum" not in json.dumps(schema))  # see the next test
    declared = {"$schema": META_SCHEMA_VALIDATORS[draft].META_SCHEMA["$schema"], **schema}
    assert META_SCHEMA_VALIDATORS[draft].is_valid(declared) == jsonschema_rs.meta.is_valid(declared)


@pytest.mark.parametrize("values", [[], [1, 1]])
def test_jsonschema_rs_allows_an_empty_or_repeated_enum_in_draft_4_and_jsonschema_does_not(values: list[int]) -> None:
    """Our check allows them too, as jsonschema-rs decides: later drafts allow both."""
    assert jsonschema_rs.meta.is_valid({"$schema": DRAFT_4, "enum": values})
    assert not META_SCHEMA_VALIDATORS["json-schema.org/draft-04/schema"].is_valid({"enum": values})


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ({"properties": {"a": {"type": "objct"}}}, ("properties", "a", "type"), '"objct" is not a type: a type is one of array, '),
        ({"anyOf": [{}, {"type": ["string", "x"]}]}, ("anyOf", 1, "type", 1), '"x" is not a type: a type is one of array, '),
        ({"type": ["null", "null"]}, ("type",), "['null', 'null'] has non-unique elements"),
        ({"properties": {"type": 3}}, ("properties", "type"), "3 is not of type object or boolean"),
        ({"minLength": None}, ("minLength",), "null is not of type integer"),
        ({"items": {"minLength": -1}}, ("items", "minLength"), "-1 is less than the minimum of 0"),
        ({"allOf": []}, ("allOf",), "[] should be non-empty"),
        ({"pattern": "("}, ("pattern",), '"(" is not a "regex"'),
        ({"required": ["x" * 3_000, 1]}, ("required", 1), "1 is not of type string"),
        ({"required": "x" * 3_000}, ("required",), '"xxx'),
        (
            {"$schema": DRAFT_4, "exclusiveMinimum": 1, "minimum": 1},
            ("exclusiveMinimum",),
            "1 is not of type boolean",
        ),
    ],
    ids=lambda each: f"{each!s:.50}",
)
def test_invalid_schema_is_explained_with_its_path(schema: dict[str, Any], path: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(CheckFailed) as refused:
        build_validator(schema)
    assert refused.value.path == path
    assert refused.value.message.startswith(message)


async def test_checked_constraint_carries_the_regex_and_the_engine_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_checks, "_DEADLINE_S", 60.0)  # a busy machine may take seconds to start the checking process
    fields = {"guided_json": PERSON, "guided_whitespace_pattern": "[ ]?"}
    request = DIALECTS["openai_chat"].parse_request(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}).encode()
    )
    checks = ConstraintChecks(response_wait_s=60)
    try:
        constraint = await checks.check_request(request, "key")
    finally:
        await checks.stop()
    assert constraint is not None
    regex = write_whitespace_regex(json.dumps(PERSON), "[ ]?")
    assert regex is not None and constraint.whitespace_regex == regex
    body = request.body
    VLLM("gpu", {}, (0, 32)).adapt_request(body, "openai_chat", lambda field: False, constraint)
    assert body.value("structured_outputs") == {"regex": regex}
    assert not body.has_value("guided_json") and not body.has_value("guided_whitespace_pattern")


def test_locks_hold_neither_outlines_nor_its_disk_cache() -> None:
    """outlines opens a disk cache that executes what is in its files (diskcache, CVE-2025-69872); outlines-core has none."""
    for lock in ("requirements.lock", "requirements-dev.lock"):
        locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / lock).read_text(), re.MULTILINE))
        assert "outlines-core" in locked and locked.isdisjoint({"outlines", "diskcache"})


def test_explaining_a_large_or_deep_invalid_schema_costs_milliseconds() -> None:
    deep: Any = {"type": "objct"}
    for _ in range(100):
        deep = {"properties": {"a": deep}}
    wide = {"properties": {f"p{at}": {"type": "string", "description": "x" * 60} for at in range(2_000)} | {"last": {"type": "objct"}}}
    for schema in (deep, wide):
        with pytest.raises(CheckFailed, match="one of array, boolean"):
            build_validator(schema)
