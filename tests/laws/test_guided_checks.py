"""Laws of checks: what nothing could obey is refused with its place, whatever it is made of; a known one costs next to nothing."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from app.gateway.structured_output.checker.protocol import CheckOrder, CheckTask
from app.gateway.structured_output.checker_client import CheckerClient, CheckerUnavailable
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.structured_output.content_cache import ContentCache
from providers.canonical.errors import InvalidRequest, RequestError, Unavailable
from providers.dialect import InboundRequest
from providers.dialects.catalogue import DIALECTS
from providers.structured_output import Choice, Constraint, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag, output_kind

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

BASE: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    "openai_responses": {"model": "m", "input": "Hello"},
    "anthropic_messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]},
}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}


def ask(dialect: str = "openai_chat", **fields: Any) -> InboundRequest:
    return DIALECTS[dialect].parse_request(json.dumps({**BASE[dialect], **fields}).encode())


def references(deep: int, word: str) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for at in range(1, deep):
        defs[f"d{at}"] = {word: [{"$ref": f"#/$defs/d{at - 1}"}, {"$ref": f"#/$defs/d{at - 1}"}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{deep - 1}"}


def wide(count: int) -> dict[str, Any]:
    kinds = ("string", "integer", "boolean", "number")
    each = {f"property_{at}": {"type": kinds[at % 4], "description": "What it is for."} for at in range(count)}
    return {"type": "object", "properties": each, "required": list(each)[::2], "additionalProperties": False}


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def one_of(count: int) -> dict[str, Any]:
    leaf = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}
    branches = [{"type": "object", "properties": {"kind": {"const": at}, "value": leaf}, "required": ["kind"]} for at in range(count)]
    return {"oneOf": branches}


# In JSONSchemaBench's style: each is checked within the bounds, or refused.
GOOD: dict[str, Any] = {
    "a person": PERSON,
    "30 levels": deep(30),
    "5000 choices": {"enum": [f"value {at}" for at in range(5000)]},
    "a tree of alternatives": one_of(30),
    "a tree of nodes": {
        "$defs": {"node": {"type": "object", "properties": {"next": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "$ref": "#/$defs/node",
    },
    "patterns of names": {"type": "object", "patternProperties": {"^[a-z]{1,8}$": {"type": "integer"}}, "additionalProperties": False},
    "formats": {
        "properties": {each: {"type": "string", "format": each} for each in ("date", "uuid", "email", "uri", "ipv4", "hostname", "own")}
    },
    "50 kB": wide(600),
    "references that fan out": references(20, "anyOf"),
    "100 references one after the other": references(100, "allOf"),
    "long strings": {"type": "string", "maxLength": 100_000},
    "a property that is called as a keyword": {"properties": {"maxLength": {"type": "integer"}, "enum": {"type": "null"}}},
    "a reference by an anchor": {"$defs": {"n": {"$anchor": "node", "type": "null"}}, "$ref": "#node"},
    "a reference to itself within": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
    "a pattern that looks ahead for bounds": {"type": "string", "pattern": "^(?=limit exceeded)"},
    "a pattern that backtracks": {"type": "string", "pattern": "^(a+)+$"},
    "a pattern that looks ahead": {"type": "string", "pattern": "^(?=a).*$"},
    "what llguidance cannot do": {"not": {"type": "null"}, "if": {"type": "string"}, "then": {"minLength": 2}, "uniqueItems": True},
    "another draft": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 3, "exclusiveMinimum": True},
    "a reference by its own id": {"$id": "https://ours.test/a", "$defs": {"b": {"$id": "b", "type": "null"}}, "$ref": "b"},
    "a value that looks like a reference": {"const": {"$ref": "https://elsewhere.test"}},
    "anything": True,
}
BAD: dict[str, tuple[Any, str]] = {
    "a type that is none": ({"properties": {"a": {"type": "strin"}}}, ".properties.a.type"),
    "a keyword of a wrong kind": ({"required": "a"}, ".required"),
    "a pattern that is none": ({"items": {"pattern": "(a"}}, ".items.pattern"),
    "a reference to nothing": ({"$ref": "#/$defs/none"}, ""),
    "a reference to elsewhere": ({"properties": {"a": {"$ref": "https://elsewhere.test/b"}}}, ".properties.a.$ref"),
    "a draft that nobody knows": ({"$schema": "https://elsewhere.test/draft"}, ".$schema"),
    "a reference to itself": ({"$ref": "#"}, ".$ref"),
    "a reference to itself by another": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
        ".$defs.b.allOf[0].$ref",
    ),
    "a reference to elsewhere, in a property called as a keyword": (
        {"properties": {"default": {"$ref": "https://elsewhere.test"}}},
        ".properties.default.$ref",
    ),
    "very long strings": ({"properties": {"a": {"type": "string", "maxLength": 10**9}}}, ".properties.a.maxLength"),
    "very many items": ({"type": "array", "items": {"type": "array", "minItems": 10**6}}, ".items.minItems"),
    "very many repetitions": ({"pattern": "^(?:a|[b-z]{1,400}){1,400}$"}, ".pattern"),
    "very many repetitions in a name": (
        {"patternProperties": {"^(?:a|[b-z]{1,400}){1,400}$": {}}},
        ".patternProperties.^(?:a|[b-z]{1,400}){1,400}$",
    ),
    "nothing satisfies it": ({"type": "string", "minLength": 3, "maxLength": 2}, ""),
    "nothing at all": (False, ""),
    "alternatives that multiply": (
        {"allOf": [{"anyOf": [{"properties": {f"a{a}{b}": {"const": b}}} for b in range(6)]} for a in range(12)]},
        "",
    ),
    "300 levels": (deep(300), ""),
    "a pattern that explodes": ({"pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"}, ".pattern"),
}


@pytest.fixture(scope="module")
async def checks() -> AsyncGenerator[ConstraintChecks]:
    checks = ConstraintChecks()
    checks.start()
    yield checks
    await checks.stop()


@pytest.mark.parametrize("name", GOOD)
async def test_a_schema_that_an_engine_may_obey_passes(checks: ConstraintChecks, name: str) -> None:
    found = await checks.check_request(ask(guided_json=GOOD[name]), "key")
    assert found is not None
    assert isinstance(found.output, JsonSchema)
    assert json.loads(bytes(found.output.schema)) == GOOD[name]


@pytest.mark.parametrize("name", BAD)
async def test_a_schema_that_nothing_can_obey_is_refused_with_its_place(checks: ConstraintChecks, name: str) -> None:
    schema, path = BAD[name]
    with pytest.raises(InvalidRequest) as refused:
        await checks.check_request(ask(guided_json=schema), "key")
    assert refused.value.param == f"guided_json{path}"


@pytest.mark.parametrize(
    ("dialect", "fields", "place"),
    [
        (
            "openai_chat",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "x"}}}},
            "response_format.json_schema.schema.type",
        ),
        (
            "openai_responses",
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "x"}}}},
            "text.format.schema.type",
        ),
        (
            "anthropic_messages",
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}},
            "output_config.format.schema.type",
        ),
        (
            "openai_chat",
            {"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "x"}}}]},
            "tools[0].function.parameters.type",
        ),
        (
            "openai_responses",
            {"tools": [{"type": "function", "name": "f", "strict": True, "parameters": {"type": "x"}}]},
            "tools[0].parameters.type",
        ),
        ("openai_chat", {"guided_regex": "(a"}, "guided_regex"),
        ("openai_chat", {"guided_regex": "(?=a)b"}, "guided_regex"),
        ("openai_chat", {"regex": r"(a)\1"}, "regex"),
        ("openai_chat", {"guided_regex": ""}, "guided_regex"),
        ("openai_chat", {"guided_regex": "a\0"}, "guided_regex"),
        ("openai_chat", {"structured_outputs": {"regex": "a" * 600_000}}, "structured_outputs"),
        ("openai_chat", {"guided_regex": "[a-z]{1,100000}"}, "guided_regex"),
        ("openai_chat", {"guided_regex": "((a{1,100}){1,100}){1,100}"}, "guided_regex"),
        ("openai_chat", {"guided_regex": "(" * 9000 + ")" * 9000}, "guided_regex"),
        ("openai_chat", {"guided_regex": r"[^\s\S]"}, "guided_regex"),
        ("openai_chat", {"guided_grammar": 'root ::= ("a"{1000}){1000}'}, "guided_grammar"),
        ("openai_chat", {"guided_grammar": "root ::= a\na ::= b\nb ::= a"}, "guided_grammar"),
        ("openai_chat", {"guided_json": "[" * 9000}, "guided_json"),
        ("openai_chat", {"guided_json": PERSON, "guided_whitespace_pattern": "[ ]{0,100000}"}, "guided_whitespace_pattern"),
        ("openai_chat", {"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ("openai_responses", {"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        (
            "anthropic_messages",
            {
                "output_config": {"format": {"type": "json_schema", "schema": PERSON}},
                "output_format": {"type": "json_schema", "schema": PERSON},
            },
            "output_format",
        ),
        ("openai_chat", {"guided_grammar": "start: nowhere"}, "guided_grammar"),
        ("openai_chat", {"guided_grammar": "no grammar"}, "guided_grammar"),
        ("openai_chat", {"ebnf": 'root ::= "a" nowhere'}, "ebnf"),
        ("openai_chat", {"grammar": 'root ::= ("a"'}, "grammar"),
        ("openai_chat", {"guided_choice": ["a", ""]}, "guided_choice"),
        ("openai_chat", {"guided_choice": ["a", "\0"]}, "guided_choice"),
        ("openai_chat", {"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ("openai_chat", {"structural_tag": {"nothing": 1}}, "structural_tag"),
        ("openai_chat", {"structural_tag": "{no"}, "structural_tag"),
        ("openai_chat", {"structural_tag": {"format": {"type": "regex", "pattern": "(a"}}}, "structural_tag.format.pattern"),
        ("openai_chat", {"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
        ("openai_chat", {"guided_json": PERSON, "guided_whitespace_pattern": "a?"}, "guided_whitespace_pattern"),
    ],
    ids=lambda said: f"{said!s:.50}",
)
async def test_a_fault_is_told_by_the_callers_own_path(checks: ConstraintChecks, dialect: str, fields: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await checks.check_request(ask(dialect, **fields), "key")
    assert refused.value.param == place


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"regex": "[a-z]+"}, Regex),
        ({"ebnf": 'root ::= ("a"*)? | "\\u00e9" [^\\n\\]-]{2,3} rest-of\nrest-of ::= | "b" .'}, Grammar),
        ({"guided_grammar": 'start: "a" b\nb: /x+/'}, Grammar),
        ({"structural_tag": {"format": {"type": "an engine's own"}}}, StructuralTag),
        ({"structural_tag": {"structures": [{"begin": "<a>", "schema": PERSON, "end": "</a>"}], "triggers": ["<a"]}}, StructuralTag),
        ({"guided_choice": ["yes", "no"]}, Choice),
        ({"response_format": {"type": "json_object"}}, JsonObject),
    ],
    ids=str,
)
async def test_what_an_engine_may_obey_passes(checks: ConstraintChecks, fields: dict[str, Any], kind: type) -> None:
    found = await checks.check_request(ask(**fields), "key")
    assert found is not None
    assert isinstance(found.output, kind)


async def test_what_constrains_nothing_is_none(checks: ConstraintChecks) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "x"}}}]
    nothing: list[dict[str, Any]] = [{}, {"tools": tools}, {"guided_json": None}, {"response_format": {"type": "text"}}]
    for fields in [*nothing, {"guided_whitespace_pattern": " "}]:
        assert await checks.check_request(ask(**fields), "key") is None
    assert await checks.check_request(ask("openai_responses", text={"verbosity": "low"}), "key") is None


names = st.sampled_from(
    ["type", "properties", "items", "enum", "$ref", "$defs", "allOf", "anyOf", "pattern", "minLength", "format", "$id", "not"]
)
odd: list[Any] = ["object", "string", "#", "#/$defs/a", "(", "^a*$", "https://x.test", "date", -1, 10**30, 1.5, None, True, [], {}]
values = st.sampled_from(odd)
hostile_schemas = st.recursive(values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=15)


def asked_by(schema: Any) -> dict[str, Any]:
    return {"guided_json": {"items": schema}}


hostile: st.SearchStrategy[dict[str, Any]] = st.one_of(
    hostile_schemas.map(asked_by),
    st.dictionaries(names, hostile_schemas, max_size=4).map(lambda schema: {"guided_json": schema}),
    st.text(max_size=40).map(lambda said: {"guided_regex": said}),
    st.text(st.sampled_from('ab"|()[]{}*+?:=\n/.\\%- 0'), max_size=60).map(lambda said: {"guided_grammar": "root ::= " + said}),
    st.text(st.sampled_from('ab"|()[]{}*+?:=\n/.\\%- 0'), max_size=60).map(lambda said: {"guided_grammar": "start: " + said}),
    hostile_schemas.map(lambda tag: {"structural_tag": {"format": {"type": "tag", "begin": "<a>", "content": tag, "end": "</a>"}}}),
)


@few
@given(hostile)
async def test_hostile_constraints_are_answered_and_the_second_answer_is_the_first(
    checks: ConstraintChecks, fields: dict[str, Any]
) -> None:
    fresh = await told(checks, fields)
    assert await told(checks, fields) == fresh
    assert isinstance(fresh, Constraint | None) or fresh[0] is InvalidRequest


async def told(checks: ConstraintChecks, fields: dict[str, Any]) -> Any:
    try:
        return await checks.check_request(ask(**fields), "key")
    except RequestError as fault:
        return type(fault), fault.message, fault.param


def named(told: OutputFormat | str | bool) -> str:
    """Alike in every process that collects."""
    return str(told) if isinstance(told, str | bool) else output_kind(told)


@pytest.mark.parametrize(
    ("output", "reply", "obeys", "begins"),
    [
        (JsonSchema(Raw(json.dumps(PERSON).encode())), ' {"age": 3, "name": "A"}\n', True, True),
        (JsonSchema(Raw(json.dumps(PERSON).encode())), '{"age": 3, "na', False, True),
        (JsonSchema(Raw(json.dumps(PERSON).encode())), '{"age": 3}', False, False),
        (JsonSchema(Raw(json.dumps(PERSON).encode())), '{"age": NaN, "name": "A"}', False, False),
        (JsonSchema(Raw(json.dumps(PERSON).encode())), 'Here it is: {"name": "A"}', False, False),
        (JsonSchema(Raw(b'{"type":"string","format":"date"}')), '"2026-02-30"', False, False),
        (JsonSchema(Raw(b'{"type":"string","format":"date"}')), '"2026-02-28"', True, True),
        (JsonSchema(Raw(b'{"not":{"type":"null"},"uniqueItems":true}')), "[1, 1]", False, False),
        (JsonObject(), '{"a": [1]}', True, True),
        (JsonObject(), '{"a": [1', False, True),
        (JsonSchema(Raw(b'{"type":"integer","minimum":100}')), "12", False, True),
        (JsonObject(), "[1]", False, False),
        (Regex("[a-z]{3}"), "abc", True, True),
        (Regex("^[a-z]{3}$"), "ab", False, True),
        (Regex("[a-z]{3}"), "abcd", False, False),
        (Choice(("yes", "no")), "yes", True, True),
        (Choice(("yes", "no")), "ye", False, True),
        (Choice(("yes", "no")), "Yes", False, False),
        (Grammar('root ::= ("é" | "bc")+'), "ébc", True, True),
        (Grammar('root ::= ("é" | "bc")+'), "éb", False, True),
        (Grammar('start: "a"'), "b", False, False),
        (
            StructuralTag(
                '{"format":{"type":"tag","begin":"<a>","content":{"type":"json_schema","json_schema":{"type":"object"}},"end":"</a>"}}'
            ),
            "<a>{ }</a>",
            True,
            True,
        ),
        (StructuralTag('{"format":{"type":"an engine\'s own"}}'), "a", False, False),
    ],
    ids=named,
)
async def test_whether_a_reply_obeys(checks: ConstraintChecks, output: OutputFormat, reply: str, obeys: bool, begins: bool) -> None:
    assert (await checks.find_violation(output, reply, is_complete=True) is None) == obeys
    assert (await checks.find_violation(output, reply, is_complete=False) is None) == begins


async def test_a_reply_that_takes_too_long_to_check_is_not_known_to_obey(checks: ConstraintChecks) -> None:
    fault = await checks.find_violation(Regex("(.|\n)*"), "a" * 3_000_000, is_complete=True)
    assert fault is not None
    assert "to check" in fault
    assert await checks.find_violation(Regex("a"), "a", is_complete=True) is None


async def test_asks_of_one_content_share_a_check_and_those_that_leave_spoil_it_for_nobody(checks: ConstraintChecks) -> None:
    asks = [ask(guided_json=wide(200)) for _ in range(8)]
    waiting = [asyncio.create_task(checks.check_request(each, "key")) for each in asks]
    await asyncio.sleep(0)
    waiting[0].cancel()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert all(each is found[1] for each in found[1:])


async def test_checks_go_on_when_their_process_is_killed() -> None:
    checks = ConstraintChecks()
    checks.start()
    try:
        assert await checks.check_request(ask(guided_regex="first"), "key") is not None
        assert checks.pid is not None
        os.kill(checks.pid, signal.SIGKILL)
        assert await checks.check_request(ask(guided_regex="second"), "key") is not None
    finally:
        await checks.stop()
    assert checks.pid is None


async def test_a_process_that_hangs_is_given_up_and_the_next_order_has_another() -> None:
    checker = CheckerClient(0.3)
    order = CheckOrder((CheckTask("regex", "a"),), 0.05)
    try:
        while True:
            with contextlib.suppress(CheckerUnavailable):  # while it starts
                await checker.check(order)
                break
        hanging = checker.pid
        assert hanging is not None
        os.kill(hanging, signal.SIGSTOP)
        with pytest.raises(CheckerUnavailable):
            await checker.check(order)
        assert not is_running(hanging)
    finally:
        await checker.stop()
    with pytest.raises(CheckerUnavailable):
        await checker.check(order)
    assert checker.pid is None


async def test_the_process_that_checks_holds_no_secrets_and_ends_with_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARTHEX_SECRET", "hidden")
    checks = ConstraintChecks()
    await checks.check_request(ask(guided_regex="a"), "key")
    pid = checks.pid
    assert pid is not None
    assert b"hidden" not in environment_of(pid)
    late = asyncio.create_task(checks.check_request(ask(guided_regex="b"), "key"))
    await asyncio.sleep(0)
    await checks.stop()
    assert isinstance((await asyncio.gather(late, return_exceptions=True))[0], Constraint | Unavailable)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_what_is_known_costs_a_fraction_of_what_is_new(checks: ConstraintChecks) -> None:
    large = ask(guided_json=wide(600))
    await checks.check_request(large, "key")
    times: list[int] = []
    for _ in range(50):
        began = time.process_time_ns()
        await checks.check_request(large, "key")
        times.append(time.process_time_ns() - began)
    assert min(times) < 1_000_000


@few
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 50, 9_000, 20_000])), max_size=40))
def test_what_is_known_is_bounded_and_never_another(said: list[tuple[int, int]]) -> None:
    known: ContentCache[bytes] = ContentCache(5, 50_000)
    for number, size in said:
        middle = size // 2
        content = b"x" * middle + b"%d" % number + b"x" * (size - middle)
        found = known.get(content)
        assert found in (None, content)
        if found is None:
            known.put(content, content)
            assert known.get(content) == content
        assert len(known) <= 5
        assert known.size_bytes <= 50_000


async def test_one_caller_does_not_take_the_process_from_the_others(checks: ConstraintChecks) -> None:
    hers = [asyncio.create_task(checks.check_request(ask(guided_regex=f"hers{at}"), "hers")) for at in range(40)]
    await asyncio.sleep(0)
    assert await checks.check_request(ask(guided_regex="his"), "his") is not None
    found = await asyncio.gather(*hers, return_exceptions=True)
    assert sum(isinstance(each, Unavailable) for each in found) == 8
    assert await checks.check_request(ask(guided_regex="hers again"), "hers") is not None


LENGTH: dict[str, Any] = {"type": "string", "minLength": 1}
TAGGED: dict[str, Any] = {"type": "tag", "begin": "<", "content": {"type": "json_schema", "json_schema": LENGTH}, "end": ">"}


def strict(schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}


@pytest.mark.parametrize(
    ("fields", "loose"),
    [
        ({"guided_json": {"type": "string", "maxLength": 9}}, {"guided_json"}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}, "type": "null"}}}},
            {"response_format"},
        ),
        ({"guided_json": {"type": "integer", "minimum": 9}}, set[str]()),
        ({"tools": [strict({"type": "object"}), strict({"type": "object", "minProperties": 1})]}, {"tools[1].function.parameters"}),
        (
            {
                "structural_tag": {
                    "format": {"type": "tag", "begin": "<", "content": {"type": "json_schema", "json_schema": LENGTH}, "end": ">"}
                }
            },
            {"structural_tag"},
        ),
    ],
)
async def test_what_grammars_are_not_known_to_hold_to_is_told_of_a_constraint(
    checks: ConstraintChecks, fields: dict[str, Any], loose: set[str]
) -> None:
    found = await checks.check_request(ask(**fields), "key")
    assert found is not None
    assert found.uncovered_paths == loose


async def test_a_misspelt_type_is_told_what_types_there_are(checks: ConstraintChecks) -> None:
    with pytest.raises(InvalidRequest, match="one of array, boolean, integer, null, number, object and string"):
        await checks.check_request(ask(guided_json={"properties": {"a": {"type": "objct"}}}), "key")
