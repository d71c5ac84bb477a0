"""Laws of tools at vLLM: a call that cannot be made, or is held to no schema, is refused by name, or dropped by leave and reported."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from providers import structured_output
from providers.adapters.provider import Adapted, Provider
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.vllm.adapter import VLLM
from tests.laws.asking import everything, nothing

NOW = VLLM("v", {}, (0, 32))
SCHEMA = {"type": "object"}


def function(dialect: str, name: str = "book", **more: Any) -> dict[str, Any]:
    match dialect:
        case "openai_chat":
            return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **more}}
        case "openai_responses":
            return {"type": "function", "name": name, "parameters": SCHEMA, **more}
        case _:
            return {"name": name, "input_schema": SCHEMA, **more}


DIALECTS = ["openai_chat", "openai_responses", "anthropic_messages"]
CONSTRAINED: dict[str, dict[str, Any]] = {
    "openai_chat": {"response_format": {"type": "json_object"}},
    "openai_responses": {"text": {"format": {"type": "json_object"}, "verbosity": "medium"}},
    "anthropic_messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}},
}
FIELDS = {"openai_chat": "response_format", "openai_responses": "text.format", "anthropic_messages": "output_config.format"}
DEMANDS: dict[str, list[Any]] = {
    "openai_chat": ["required", {"type": "function", "function": {"name": "book"}}],
    "openai_responses": ["required", {"type": "function", "name": "book"}],
    "anthropic_messages": [{"type": "any"}, {"type": "tool", "name": "book"}],
}
FREE: dict[str, list[Any]] = {dialect: [None, "auto"] for dialect in DIALECTS[:2]} | {"anthropic_messages": [None, {"type": "auto"}]}
NONE: dict[str, Any] = {"openai_chat": "none", "openai_responses": "none", "anthropic_messages": {"type": "none"}}


def bent(provider: Provider, fields: dict[str, Any], dialect: str, may_drop: Callable[[str], bool]) -> tuple[dict[str, Any], Adapted]:
    body = Body.read(json.dumps(fields).encode())
    told = provider.adapt_request(body, dialect, may_drop, structured_output.read_constraint(dialect, body))
    return json.loads(body.write()), told


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_beside_a_constraint_are_refused_and_go_where_the_caller_lets_them(dialect: str) -> None:
    """Seen on 0.32: by a free choice no call is made, by a demand the constraint is forgotten."""
    for choice in (*FREE[dialect], *DEMANDS[dialect]):
        asked = {"tools": [function(dialect)], "tool_choice": choice, "parallel_tool_calls": True, **CONSTRAINED[dialect]}
        with pytest.raises(Unsupported) as refused:
            bent(NOW, asked, dialect, nothing)
        assert refused.value.param == "tools"
        assert f"`{FIELDS[dialect]}`" in refused.value.message
        for leave in (everything, "tools".__eq__):
            sent, told = bent(NOW, asked, dialect, leave)
            assert sent == CONSTRAINED[dialect]
            assert told.dropped == ["tools"]
            assert told.constraint_plan is not None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_or_the_constraint_goes_where_the_caller_lets_that(dialect: str) -> None:
    tools = {"tools": [function(dialect)], "tool_choice": FREE[dialect][1]}
    for leave in (FIELDS[dialect].__eq__, FIELDS[dialect].partition(".")[0].__eq__):
        sent, told = bent(NOW, {**tools, **CONSTRAINED[dialect]}, dialect, leave)
        assert (told.constraint_plan, told.dropped) == (None, [FIELDS[dialect]])
        assert {key: sent[key] for key in tools} == tools
        assert "format" not in json.dumps(sent)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_beside_a_strict_tool_an_answer_may_be_a_call_or_obey_where_the_engine_makes_that_one_grammar(dialect: str) -> None:
    """Seen on 0.32; 0.22 to 0.29 forget the constraint then."""
    for choice in FREE[dialect]:
        asked = {"tools": [function(dialect), function(dialect, "b", strict=True)], "tool_choice": choice, **CONSTRAINED[dialect]}
        sent, told = bent(NOW, asked, dialect, nothing)
        assert (sent, told.dropped) == (asked, [])
        assert told.constraint_plan is not None
        assert told.constraint_plan.enforcement == "enforced"
        for older in (VLLM("v", {}, (0, 29)), VLLM("v", {}), VLLM("v", {"strict_tools": False}, (0, 32))):
            with pytest.raises(Unsupported):
                bent(older, asked, dialect, nothing)
    for choice in DEMANDS[dialect]:
        with pytest.raises(Unsupported):
            bent(NOW, {"tools": [function(dialect, strict=True)], "tool_choice": choice, **CONSTRAINED[dialect]}, dialect, nothing)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_that_are_not_to_be_called_are_in_nobodys_way(dialect: str) -> None:
    asked = {"tools": [function(dialect)], "tool_choice": NONE[dialect], **CONSTRAINED[dialect]}
    sent, told = bent(NOW, asked, dialect, nothing)
    assert (sent, told.dropped) == (asked, [])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "provider", [VLLM("v", {}), VLLM("v", {}, (0, 20, 2)), VLLM("v", {"version": "0.11"}), VLLM("v", {"strict_tools": False}, (0, 32))]
)
def test_a_strict_tool_is_refused_where_free_calls_are_not_held_to_its_schema(provider: Provider, dialect: str) -> None:
    for choice in FREE[dialect]:
        asked = {"tools": [function(dialect, strict=False), function(dialect, "other", strict=True)], "tool_choice": choice}
        with pytest.raises(Unsupported) as refused:
            bent(provider, asked, dialect, nothing)
        assert refused.value.param == ("tools[1].function.strict" if dialect == "openai_chat" else "tools[1].strict")
        _, told = bent(provider, asked, dialect, everything)
        assert told.dropped == [refused.value.param]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_strict_tool_is_sent_where_calls_are_held_to_its_schema(dialect: str) -> None:
    for choice in (*FREE[dialect], *DEMANDS[dialect]):
        asked = {"tools": [function(dialect, strict=True)], "tool_choice": choice}
        assert bent(NOW, asked, dialect, nothing)[0] == asked
    for choice in DEMANDS[dialect]:  # as all versions hold demanded calls to it
        asked = {"tools": [function(dialect, strict=True)], "tool_choice": choice}
        assert bent(VLLM("v", {}, (0, 11)), asked, dialect, nothing)[0] == asked


@pytest.mark.parametrize("tools", ["[]", "[ ]", "[\n]"])
@pytest.mark.parametrize("choice", ['"auto"', '"none"', "null"])
def test_no_tools_are_no_tools(tools: str, choice: str) -> None:
    body = Body.read(f'{{"tools":{tools},"tool_choice":{choice}}}'.encode())
    NOW.adapt_request(body, "openai_chat", nothing)
    assert body.write() == (b"{}" if choice != "null" else b'{"tool_choice":null}')


def test_tools_and_what_is_required_of_none_are_left_to_the_engine() -> None:
    for raw in (b'{"tools":[{"type":"function"}],"tool_choice":"auto"}', b'{"tools":null}', b'{"tool_choice":"required"}'):
        body = Body.read(raw)
        NOW.adapt_request(body, "openai_chat", nothing)
        assert body.write() == raw


@pytest.mark.parametrize("dialect", DIALECTS[:2])
def test_a_choice_among_some_is_said_by_sending_those_alone(dialect: str) -> None:
    one, other = function(dialect, "one"), function(dialect, "other")
    named = {"type": "function", "name": "other"}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": named} if dialect == "openai_chat" else named]}
    choice = {"type": "allowed_tools", **({"allowed_tools": allowed} if dialect == "openai_chat" else allowed)}
    sent, told = bent(NOW, {"tools": [one, other], "tool_choice": choice}, dialect, nothing)
    assert sent == {"tools": [other], "tool_choice": "required"}
    assert told.dropped == []


FOREIGN: dict[str, dict[str, Any]] = {
    "openai_chat": {"type": "custom", "custom": {"name": "x"}},
    "openai_responses": {"type": "web_search"},
    "anthropic_messages": {"type": "web_search_20250305", "name": "web_search"},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_that_it_would_pass_over_are_refused_by_their_place(dialect: str) -> None:
    asked = {"tools": [function(dialect), FOREIGN[dialect]], "tool_choice": FREE[dialect][1]}
    with pytest.raises(Unsupported) as refused:
        bent(NOW, asked, dialect, nothing)
    assert refused.value.param == "tools[1]"
    sent, told = bent(NOW, asked, dialect, everything)
    assert (sent["tools"], told.dropped) == ([function(dialect)], ["tools[1]"])
    sent, _ = bent(NOW, {**asked, "tools": [FOREIGN[dialect]]}, dialect, everything)
    assert sent == {}


def test_a_server_of_tools_is_sent_what_it_runs() -> None:
    asked = {"tools": [FOREIGN["openai_responses"]]}
    assert bent(VLLM("v", {"accepts": ["tools"]}, (0, 32)), asked, "openai_responses", nothing)[0] == asked
