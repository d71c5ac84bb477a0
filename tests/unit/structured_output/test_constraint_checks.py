"""Checks of constraints: one that nothing can satisfy or that costs too much is refused with its path; responses are judged by theirs."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from app.gateway.structured_output import constraint_checks
from app.gateway.structured_output.check_queue import CheckQueue
from app.gateway.structured_output.checker.protocol import CheckOrder, CheckTask
from app.gateway.structured_output.checker_client import CheckerClient, CheckerUnavailable
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.structured_output.content_cache import ContentCache
from providers.canonical.errors import InvalidRequest, RequestError, Unavailable
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag, output_kind
from providers.catalogue import DIALECTS
from providers.dialect import InboundRequest
from providers.structured_output import Constraint

few_examples = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

BASE_REQUESTS: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    "openai_responses": {"model": "m", "input": "Hello"},
    "anthropic_messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]},
}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}


def inbound_request(dialect: str = "openai_chat", **fields: Any) -> InboundRequest:
    return DIALECTS[dialect].parse_request(json.dumps({**BASE_REQUESTS[dialect], **fields}).encode())


def chained_references(levels: int, keyword: str) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for at in range(1, levels):
        defs[f"d{at}"] = {keyword: [{"$ref": f"#/$defs/d{at - 1}"}, {"$ref": f"#/$defs/d{at - 1}"}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels - 1}"}


def wide_schema(count: int) -> dict[str, Any]:
    kinds = ("string", "integer", "boolean", "number")
    each = {f"property_{at}": {"type": kinds[at % 4], "description": "What it is for."} for at in range(count)}
    return {"type": "object", "properties": each, "required": list(each)[::2], "additionalProperties": False}


def deep_schema(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def one_of_schema(count: int) -> dict[str, Any]:
    leaf = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}
    branches = [{"type": "object", "properties": {"kind": {"const": at}, "value": leaf}, "required": ["kind"]} for at in range(count)]
    return {"oneOf": branches}


# Schemas in the style of JSONSchemaBench: each passes within the limits.
VALID_SCHEMAS: dict[str, Any] = {
    "a person": PERSON,
    "30 levels": deep_schema(30),
    "5000 choices": {"enum": [f"value {at}" for at in range(5000)]},
    "a tree of alternatives": one_of_schema(30),
    "a tree of nodes": {
        "$defs": {"node": {"type": "object", "properties": {"next": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "$ref": "#/$defs/node",
    },
    "patterns of names": {"type": "object", "patternProperties": {"^[a-z]{1,8}$": {"type": "integer"}}, "additionalProperties": False},
    "formats": {
        "properties": {each: {"type": "string", "format": each} for each in ("date", "uuid", "email", "uri", "ipv4", "hostname", "own")}
    },
    "50 kB": wide_schema(600),
    "references that fan out": chained_references(20, "anyOf"),
    "100 references one after the other": chained_references(100, "allOf"),
    "long strings": {"type": "string", "maxLength": 100_000},
    "a property named like a keyword": {"properties": {"maxLength": {"type": "integer"}, "enum": {"type": "null"}}},
    "a reference by an anchor": {"$defs": {"n": {"$anchor": "node", "type": "null"}}, "$ref": "#node"},
    "a reference to itself within": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
    "a pattern that looks ahead for bounds": {"type": "string", "pattern": "^(?=limit exceeded)"},
    "a pattern that backtracks": {"type": "string", "pattern": "^(a+)+$"},
    "a pattern that looks ahead": {"type": "string", "pattern": "^(?=a).*$"},
    "what llguidance cannot do": {"not": {"type": "null"}, "if": {"type": "string"}, "then": {"minLength": 2}, "uniqueItems": True},
    "another draft": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 3, "exclusiveMinimum": True},
    "a reference by its own id": {"$id": "https://own.test/a", "$defs": {"b": {"$id": "b", "type": "null"}}, "$ref": "b"},
    "a value that looks like a reference": {"const": {"$ref": "https://elsewhere.test"}},
    "anything": True,
}
INVALID_SCHEMAS: dict[str, tuple[Any, str]] = {
    "an unknown type": ({"properties": {"a": {"type": "strin"}}}, ".properties.a.type"),
    "a keyword of a wrong kind": ({"required": "a"}, ".required"),
    "an invalid pattern": ({"items": {"pattern": "(a"}}, ".items.pattern"),
    "a reference to nothing": ({"$ref": "#/$defs/none"}, ""),
    "a reference to elsewhere": ({"properties": {"a": {"$ref": "https://elsewhere.test/b"}}}, ".properties.a.$ref"),
    "an unknown draft": ({"$schema": "https://elsewhere.test/draft"}, ".$schema"),
    "a reference to itself": ({"$ref": "#"}, ".$ref"),
    "a reference to itself by another": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
        ".$defs.b.allOf[0].$ref",
    ),
    "a reference to elsewhere, in a property named like a keyword": (
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
    "300 levels": (deep_schema(300), ""),
    "a pattern that explodes": ({"pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"}, ".pattern"),
}


@pytest.fixture(scope="module", autouse=True)
def generous_deadlines() -> Generator[None]:
    """Gives checks a long deadline, as they may wait long on a busy machine. Their processor time stays limited."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constraint_checks, "_DEADLINE_S", 60.0)
        patch.setattr(constraint_checks, "_RESPONSE_CHECK_S", 60.0)
        yield


@pytest.fixture(scope="module")
async def checks(generous_deadlines: None) -> AsyncGenerator[ConstraintChecks]:
    checks = ConstraintChecks(response_wait_s=60)
    checks.start()
    yield checks
    await checks.stop()


@pytest.mark.parametrize("name", VALID_SCHEMAS)
async def test_valid_schema_passes_the_check_unchanged(checks: ConstraintChecks, name: str) -> None:
    constraint = await checks.check_request(inbound_request(guided_json=VALID_SCHEMAS[name]), "key")
    assert constraint is not None
    assert isinstance(constraint.output, JsonSchema)
    assert json.loads(bytes(constraint.output.schema)) == VALID_SCHEMAS[name]


@pytest.mark.parametrize("name", INVALID_SCHEMAS)
async def test_invalid_or_too_costly_schema_is_refused_with_its_path(checks: ConstraintChecks, name: str) -> None:
    schema, path = INVALID_SCHEMAS[name]
    with pytest.raises(InvalidRequest) as refused:
        await checks.check_request(inbound_request(guided_json=schema), "key")
    assert refused.value.param == f"guided_json{path}"


@pytest.mark.parametrize(
    ("dialect", "fields", "path"),
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
    ids=lambda value: f"{value!s:.50}",
)
async def test_invalid_constraint_is_refused_with_the_path_in_the_callers_dialect(
    checks: ConstraintChecks, dialect: str, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await checks.check_request(inbound_request(dialect, **fields), "key")
    assert refused.value.param == path


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
async def test_valid_constraint_passes_with_its_kind(checks: ConstraintChecks, fields: dict[str, Any], kind: type) -> None:
    constraint = await checks.check_request(inbound_request(**fields), "key")
    assert constraint is not None
    assert isinstance(constraint.output, kind)


async def test_fields_that_constrain_nothing_yield_no_constraint(checks: ConstraintChecks) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "x"}}}]
    unconstrained: list[dict[str, Any]] = [{}, {"tools": tools}, {"guided_json": None}, {"response_format": {"type": "text"}}]
    for fields in [*unconstrained, {"guided_whitespace_pattern": " "}]:
        assert await checks.check_request(inbound_request(**fields), "key") is None
    assert await checks.check_request(inbound_request("openai_responses", text={"verbosity": "low"}), "key") is None


names = st.sampled_from(
    ["type", "properties", "items", "enum", "$ref", "$defs", "allOf", "anyOf", "pattern", "minLength", "format", "$id", "not"]
)
odd_values: list[Any] = ["object", "string", "#", "#/$defs/a", "(", "^a*$", "https://x.test", "date", -1, 10**30, 1.5, None, True, [], {}]
values = st.sampled_from(odd_values)
hostile_schemas = st.recursive(values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=15)


def as_guided_json(schema: Any) -> dict[str, Any]:
    return {"guided_json": {"items": schema}}


hostile_fields: st.SearchStrategy[dict[str, Any]] = st.one_of(
    hostile_schemas.map(as_guided_json),
    st.dictionaries(names, hostile_schemas, max_size=4).map(lambda schema: {"guided_json": schema}),
    st.text(max_size=40).map(lambda text: {"guided_regex": text}),
    st.text(st.sampled_from('ab"|()[]{}*+?:=\n/.\\%- 0'), max_size=60).map(lambda rule: {"guided_grammar": "root ::= " + rule}),
    st.text(st.sampled_from('ab"|()[]{}*+?:=\n/.\\%- 0'), max_size=60).map(lambda rule: {"guided_grammar": "start: " + rule}),
    hostile_schemas.map(lambda tag: {"structural_tag": {"format": {"type": "tag", "begin": "<a>", "content": tag, "end": "</a>"}}}),
)


@few_examples
@given(hostile_fields)
async def test_hostile_constraint_passes_or_is_refused_the_same_way_twice(checks: ConstraintChecks, fields: dict[str, Any]) -> None:
    first_result = await check_result(checks, fields)
    assert await check_result(checks, fields) == first_result
    assert isinstance(first_result, Constraint | None) or first_result[0] is InvalidRequest


async def check_result(checks: ConstraintChecks, fields: dict[str, Any]) -> Any:
    try:
        return await checks.check_request(inbound_request(**fields), "key")
    except RequestError as error:
        return type(error), error.message, error.param


def parameter_id(value: OutputFormat | str | bool) -> str:
    """The same in every process that collects the tests."""
    return str(value) if isinstance(value, str | bool) else output_kind(value)


@pytest.mark.parametrize(
    ("output", "text", "is_valid", "is_valid_beginning"),
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
    ids=parameter_id,
)
async def test_response_is_judged_against_its_constraint_whole_and_truncated(
    checks: ConstraintChecks, output: OutputFormat, text: str, is_valid: bool, is_valid_beginning: bool
) -> None:
    assert (await checks.find_violation(output, text, "team", is_complete=True) is None) == is_valid
    assert (await checks.find_violation(output, text, "team", is_complete=False) is None) == is_valid_beginning


async def test_response_too_slow_to_check_counts_as_a_violation(checks: ConstraintChecks) -> None:
    violation = await checks.find_violation(Regex("(.|\n)*"), "a" * 3_000_000, "team", is_complete=True)
    assert violation is not None
    assert "to check" in violation
    assert await checks.find_violation(Regex("a"), "a", "team", is_complete=True) is None


async def test_identical_concurrent_checks_share_one_and_survive_a_cancellation(checks: ConstraintChecks) -> None:
    requests = [inbound_request(guided_json=wide_schema(200)) for _ in range(8)]
    waiting = [asyncio.create_task(checks.check_request(each, "key")) for each in requests]
    await asyncio.sleep(0)
    waiting[0].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(each is results[1] for each in results[1:])


async def test_checks_continue_after_the_checker_process_is_killed() -> None:
    checks = ConstraintChecks(response_wait_s=60)
    checks.start()
    try:
        assert await checks.check_request(inbound_request(guided_regex="first"), "key") is not None
        pid, _ = checks.pids
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert await checks.check_request(inbound_request(guided_regex="second"), "key") is not None
    finally:
        await checks.stop()
    assert checks.pids == (None, None)


async def test_hanging_checker_process_is_killed_and_a_stopped_checker_answers_nothing() -> None:
    checker = CheckerClient(60.0)
    order = CheckOrder((CheckTask("regex", "a"),), 0.05)
    try:
        await checker.check(order)
        hanging = checker.pid
        assert hanging is not None
        os.kill(hanging, signal.SIGSTOP)
        checker._deadline_s = 0.3  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(CheckerUnavailable):
            await checker.check(order)
        assert not is_running(hanging)
    finally:
        await checker.stop()
    with pytest.raises(CheckerUnavailable):
        await checker.check(order)
    assert checker.pid is None


async def test_checker_process_inherits_no_secrets_and_ends_when_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARTHEX_SECRET", "hidden")
    checks = ConstraintChecks(response_wait_s=60)
    await checks.check_request(inbound_request(guided_regex="a"), "key")
    await checks.find_violation(Regex("a"), "a", "team", is_complete=True)
    pids = checks.pids
    for pid in pids:
        assert pid is not None
        assert b"hidden" not in environment_of(pid)
    late = asyncio.create_task(checks.check_request(inbound_request(guided_regex="b"), "key"))
    await asyncio.sleep(0)
    await checks.stop()
    assert isinstance((await asyncio.gather(late, return_exceptions=True))[0], Constraint | Unavailable)
    assert not any(pid is not None and is_running(pid) for pid in pids)


def test_checker_process_imports_nothing_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("open('planted', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    with asyncio.Runner() as runner:
        runner.run(check_one_regex(CheckerClient(60.0)))
    assert not (tmp_path / "planted").exists()


async def check_one_regex(checker: CheckerClient) -> set[str]:
    """Checks one regex and returns the files that the checking process has open."""
    try:
        assert (await checker.check(CheckOrder((CheckTask("regex", "a"),), 10.0))).outcome == "valid"
        assert checker.pid is not None
        return open_files(checker.pid)
    finally:
        await checker.stop()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_checker_process_inherits_no_listening_socket(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, asyncio.Runner(loop_factory=new_loop) as runner:
        listener.set_inheritable(True)
        own = os.readlink(f"/proc/self/fd/{listener.fileno()}")
        opened = runner.run(check_one_regex(CheckerClient(60.0)))
    assert opened and own not in opened


def open_files(pid: int) -> set[str]:
    return {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_repeated_constraint_check_takes_under_a_millisecond(checks: ConstraintChecks) -> None:
    large = inbound_request(guided_json=wide_schema(600))
    await checks.check_request(large, "key")
    times: list[int] = []
    for _ in range(50):
        began = time.process_time_ns()
        await checks.check_request(large, "key")
        times.append(time.process_time_ns() - began)
    assert min(times) < 1_000_000


@few_examples
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 50, 9_000, 20_000])), max_size=40))
def test_content_cache_is_bounded_and_never_returns_other_content(entries: list[tuple[int, int]]) -> None:
    cache: ContentCache[bytes] = ContentCache(5, 50_000)
    for number, size in entries:
        middle = size // 2
        content = b"x" * middle + b"%d" % number + b"x" * (size - middle)
        found = cache.get(content)
        assert found in (None, content)
        if found is None:
            cache.put(content, content)
            assert cache.get(content) == content
        assert len(cache) <= 5
        assert cache.size_bytes <= 50_000


async def begin_flood(checks: ConstraintChecks, title: str) -> list[asyncio.Task[Constraint | None]]:
    """Begins one team's checks of 31 heavy schemas, which wait."""
    heavy = [inbound_request(guided_json={"title": f"{title} {at}", **wide_schema(300)}) for at in range(31)]
    flood = [asyncio.create_task(checks.check_request(each, "flooding team")) for each in heavy]
    await asyncio.sleep(0)
    return flood


async def test_new_constraint_of_one_team_waits_for_no_others_queue(checks: ConstraintChecks) -> None:
    flood = await begin_flood(checks, "constraints")
    assert await checks.check_request(inbound_request(guided_regex="of another team"), "other team") is not None
    # One of them was in progress when the other team's came.
    assert sum(each.done() for each in flood) <= 2
    assert all(isinstance(each, Constraint) for each in await asyncio.gather(*flood))


async def test_team_with_too_many_waiting_constraints_is_refused_and_others_are_not(checks: ConstraintChecks) -> None:
    bound = constraint_checks._MAX_WAITING_PER_TEAM  # pyright: ignore[reportPrivateUsage]
    flood = [
        asyncio.create_task(checks.check_request(inbound_request(guided_regex=f"flood{at}"), "flooding team")) for at in range(bound + 9)
    ]
    await asyncio.sleep(0)
    assert await checks.check_request(inbound_request(guided_regex="other"), "other team") is not None
    results = await asyncio.gather(*flood, return_exceptions=True)
    assert 8 <= sum(isinstance(each, Unavailable) for each in results) <= 9
    assert await checks.check_request(inbound_request(guided_regex="flood again"), "flooding team") is not None


async def test_response_is_checked_while_constraints_wait(checks: ConstraintChecks) -> None:
    await checks.find_violation(Regex("a"), "a", "team", is_complete=True)  # its process runs
    flood = await begin_flood(checks, "beside responses")
    assert await checks.find_violation(Regex("a"), "a", "flooding team", is_complete=True) is None
    assert sum(each.done() for each in flood) <= 5
    await asyncio.gather(*flood)


async def test_response_waits_for_a_checker_that_comes_back_and_counts_as_unchecked_if_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = ConstraintChecks(response_wait_s=60)
    try:
        with monkeypatch.context() as broken:
            broken.setattr(sys, "executable", "/nowhere/python")
            broken.setattr(constraint_checks, "_RETRY_CHECK_S", 0.2)
            with pytest.raises(CheckerUnavailable):
                await checks.find_violation(Regex("a"), "a", "team", is_complete=True)
            broken.setattr(constraint_checks, "_RETRY_CHECK_S", 60.0)
            waiting = asyncio.create_task(checks.find_violation(Regex("a"), "b", "team", is_complete=True))
            await asyncio.sleep(0)
            await asyncio.sleep(0.05)
        assert await waiting is not None
    finally:
        await checks.stop()


async def test_cancelled_check_of_a_response_that_waits_costs_nothing() -> None:
    """A caller who hangs up takes nobody's turn."""
    checker = CheckerClient(60.0)
    queue = CheckQueue(checker)
    orders = [CheckOrder((CheckTask("regex", "a"),), 0.05), CheckOrder((CheckTask("regex", "(a"),), 0.05)]
    try:
        abandoned = [asyncio.create_task(queue.check("team", orders[0])) for _ in range(20)]
        last = asyncio.create_task(queue.check("team", orders[1]))
        await asyncio.sleep(0)
        for each in abandoned[1:]:
            each.cancel()
        assert (await abandoned[0]).outcome == "valid"
        assert (await last).outcome == "invalid"
    finally:
        await queue.stop()


LENGTH: dict[str, Any] = {"type": "string", "minLength": 1}
TAGGED: dict[str, Any] = {"type": "tag", "begin": "<", "content": {"type": "json_schema", "json_schema": LENGTH}, "end": ">"}


def strict_tool(schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}


@pytest.mark.parametrize(
    ("fields", "uncovered_paths"),
    [
        ({"guided_json": {"type": "string", "maxLength": 9}}, {"guided_json"}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}, "type": "null"}}}},
            {"response_format"},
        ),
        ({"guided_json": {"type": "integer", "minimum": 9}}, set[str]()),
        (
            {"tools": [strict_tool({"type": "object"}), strict_tool({"type": "object", "minProperties": 1})]},
            {"tools[1].function.parameters"},
        ),
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
async def test_schema_paths_that_grammars_may_not_enforce_are_marked_uncovered(
    checks: ConstraintChecks, fields: dict[str, Any], uncovered_paths: set[str]
) -> None:
    constraint = await checks.check_request(inbound_request(**fields), "key")
    assert constraint is not None
    assert constraint.uncovered_paths == uncovered_paths


async def test_misspelt_schema_type_is_refused_with_the_valid_types(checks: ConstraintChecks) -> None:
    with pytest.raises(InvalidRequest, match="one of array, boolean, integer, null, number, object and string"):
        await checks.check_request(inbound_request(guided_json={"properties": {"a": {"type": "objct"}}}), "key")
