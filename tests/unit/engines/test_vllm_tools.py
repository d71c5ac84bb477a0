"""Tools at vLLM: a call that cannot be made, or follows no schema, is refused by name, or dropped with permission and reported."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from providers import structured_output
from providers.adapters.provider import Adapted, Provider
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.vllm.adapter import VLLM
from tests.support.request_translation import drop_everything, drop_nothing

CURRENT_VLLM = VLLM("v", {}, (0, 32))
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
CONSTRAINT_PATHS = {"openai_chat": "response_format", "openai_responses": "text.format", "anthropic_messages": "output_config.format"}
FORCED_CHOICES: dict[str, list[Any]] = {
    "openai_chat": ["required", {"type": "function", "function": {"name": "book"}}],
    "openai_responses": ["required", {"type": "function", "name": "book"}],
    "anthropic_messages": [{"type": "any"}, {"type": "tool", "name": "book"}],
}
OPTIONAL_CHOICES: dict[str, list[Any]] = {dialect: [None, "auto"] for dialect in DIALECTS[:2]} | {
    "anthropic_messages": [None, {"type": "auto"}]
}
CHOICE_NONE: dict[str, Any] = {"openai_chat": "none", "openai_responses": "none", "anthropic_messages": {"type": "none"}}


def adapt(provider: Provider, fields: dict[str, Any], dialect: str, may_drop: Callable[[str], bool]) -> tuple[dict[str, Any], Adapted]:
    body = Body.read(json.dumps(fields).encode())
    adapted = provider.adapt_request(body, dialect, may_drop, structured_output.read_constraint(dialect, body))
    return json.loads(body.write()), adapted


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_beside_a_constraint_are_refused_or_dropped_with_permission(dialect: str) -> None:
    """This was seen on 0.32: with an optional choice no call is made, and with a forced one the constraint is ignored."""
    for choice in (*OPTIONAL_CHOICES[dialect], *FORCED_CHOICES[dialect]):
        request = {"tools": [function(dialect)], "tool_choice": choice, "parallel_tool_calls": True, **CONSTRAINED[dialect]}
        with pytest.raises(Unsupported) as refused:
            adapt(CURRENT_VLLM, request, dialect, drop_nothing)
        assert refused.value.param == "tools"
        assert f"`{CONSTRAINT_PATHS[dialect]}`" in refused.value.message
        for may_drop in (drop_everything, "tools".__eq__):
            sent, adapted = adapt(CURRENT_VLLM, request, dialect, may_drop)
            assert sent == CONSTRAINED[dialect]
            assert adapted.dropped == ["tools"]
            assert adapted.constraint_plan is not None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_constraint_beside_tools_is_dropped_with_permission(dialect: str) -> None:
    tools = {"tools": [function(dialect)], "tool_choice": OPTIONAL_CHOICES[dialect][1]}
    for may_drop in (CONSTRAINT_PATHS[dialect].__eq__, CONSTRAINT_PATHS[dialect].partition(".")[0].__eq__):
        sent, adapted = adapt(CURRENT_VLLM, {**tools, **CONSTRAINED[dialect]}, dialect, may_drop)
        assert (adapted.constraint_plan, adapted.dropped) == (None, [CONSTRAINT_PATHS[dialect]])
        assert {key: sent[key] for key in tools} == tools
        assert "format" not in json.dumps(sent)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_strict_tool_is_allowed_beside_a_constraint_only_in_versions_that_combine_them(dialect: str) -> None:
    """This was seen on 0.32; 0.22 to 0.29 ignore the constraint then."""
    for choice in OPTIONAL_CHOICES[dialect]:
        request = {"tools": [function(dialect), function(dialect, "b", strict=True)], "tool_choice": choice, **CONSTRAINED[dialect]}
        sent, adapted = adapt(CURRENT_VLLM, request, dialect, drop_nothing)
        assert (sent, adapted.dropped) == (request, [])
        assert adapted.constraint_plan is not None
        assert adapted.constraint_plan.enforcement == "enforced"
        for older in (VLLM("v", {}, (0, 29)), VLLM("v", {}), VLLM("v", {"strict_tools": False}, (0, 32))):
            with pytest.raises(Unsupported):
                adapt(older, request, dialect, drop_nothing)
    for choice in FORCED_CHOICES[dialect]:
        with pytest.raises(Unsupported):
            adapt(
                CURRENT_VLLM,
                {"tools": [function(dialect, strict=True)], "tool_choice": choice, **CONSTRAINED[dialect]},
                dialect,
                drop_nothing,
            )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tool_choice_none_is_allowed_beside_a_constraint(dialect: str) -> None:
    request = {"tools": [function(dialect)], "tool_choice": CHOICE_NONE[dialect], **CONSTRAINED[dialect]}
    sent, adapted = adapt(CURRENT_VLLM, request, dialect, drop_nothing)
    assert (sent, adapted.dropped) == (request, [])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "provider", [VLLM("v", {}), VLLM("v", {}, (0, 20, 2)), VLLM("v", {"version": "0.11"}), VLLM("v", {"strict_tools": False}, (0, 32))]
)
def test_strict_tool_is_refused_where_optional_calls_ignore_its_schema(provider: Provider, dialect: str) -> None:
    for choice in OPTIONAL_CHOICES[dialect]:
        request = {"tools": [function(dialect, strict=False), function(dialect, "other", strict=True)], "tool_choice": choice}
        with pytest.raises(Unsupported) as refused:
            adapt(provider, request, dialect, drop_nothing)
        assert refused.value.param == ("tools[1].function.strict" if dialect == "openai_chat" else "tools[1].strict")
        _, adapted = adapt(provider, request, dialect, drop_everything)
        assert adapted.dropped == [refused.value.param]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_strict_tool_is_sent_where_calls_follow_its_schema(dialect: str) -> None:
    for choice in (*OPTIONAL_CHOICES[dialect], *FORCED_CHOICES[dialect]):
        request = {"tools": [function(dialect, strict=True)], "tool_choice": choice}
        assert adapt(CURRENT_VLLM, request, dialect, drop_nothing)[0] == request
    for choice in FORCED_CHOICES[dialect]:  # in every version, forced calls follow it
        request = {"tools": [function(dialect, strict=True)], "tool_choice": choice}
        assert adapt(VLLM("v", {}, (0, 11)), request, dialect, drop_nothing)[0] == request


@pytest.mark.parametrize("tools", ["[]", "[ ]", "[\n]"])
@pytest.mark.parametrize("choice", ['"auto"', '"none"', "null"])
def test_empty_tools_are_removed_with_their_tool_choice(tools: str, choice: str) -> None:
    body = Body.read(f'{{"tools":{tools},"tool_choice":{choice}}}'.encode())
    CURRENT_VLLM.adapt_request(body, "openai_chat", drop_nothing)
    assert body.write() == (b"{}" if choice != "null" else b'{"tool_choice":null}')


def test_tools_needing_no_change_keep_the_caller_bytes() -> None:
    for raw in (b'{"tools":[{"type":"function"}],"tool_choice":"auto"}', b'{"tools":null}', b'{"tool_choice":"required"}'):
        body = Body.read(raw)
        CURRENT_VLLM.adapt_request(body, "openai_chat", drop_nothing)
        assert body.write() == raw


@pytest.mark.parametrize("dialect", DIALECTS[:2])
def test_allowed_tools_become_the_only_tools_sent(dialect: str) -> None:
    one, other = function(dialect, "one"), function(dialect, "other")
    named = {"type": "function", "name": "other"}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": named} if dialect == "openai_chat" else named]}
    choice = {"type": "allowed_tools", **({"allowed_tools": allowed} if dialect == "openai_chat" else allowed)}
    sent, adapted = adapt(CURRENT_VLLM, {"tools": [one, other], "tool_choice": choice}, dialect, drop_nothing)
    assert sent == {"tools": [other], "tool_choice": "required"}
    assert adapted.dropped == []


UNSUPPORTED_TOOLS: dict[str, dict[str, Any]] = {
    "openai_chat": {"type": "custom", "custom": {"name": "x"}},
    "openai_responses": {"type": "code_interpreter", "container": {"type": "auto"}},
    "anthropic_messages": {"type": "web_fetch_20250910", "name": "web_fetch"},
}
OFFERED_SEARCHES: dict[str, dict[str, Any]] = {
    "openai_responses": {"type": "web_search"},
    "anthropic_messages": {"type": "web_search_20250305", "name": "web_search"},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tool_type_vllm_ignores_is_refused_by_its_path_or_dropped(dialect: str) -> None:
    request = {"tools": [function(dialect), UNSUPPORTED_TOOLS[dialect]], "tool_choice": OPTIONAL_CHOICES[dialect][1]}
    with pytest.raises(Unsupported) as refused:
        adapt(CURRENT_VLLM, request, dialect, drop_nothing)
    assert refused.value.param == "tools[1]"
    sent, adapted = adapt(CURRENT_VLLM, request, dialect, drop_everything)
    assert (sent["tools"], adapted.dropped) == ([function(dialect)], ["tools[1]"])
    sent, _ = adapt(CURRENT_VLLM, {**request, "tools": [UNSUPPORTED_TOOLS[dialect]]}, dialect, drop_everything)
    assert sent == {}


@pytest.mark.parametrize("dialect", OFFERED_SEARCHES)
def test_web_search_beside_functions_is_dropped_as_an_offer(dialect: str) -> None:
    """The Codex CLI sends one with every request."""
    request = {"tools": [function(dialect), OFFERED_SEARCHES[dialect]]}
    sent, adapted = adapt(CURRENT_VLLM, request, dialect, drop_nothing)
    assert (sent["tools"], adapted.dropped) == ([function(dialect)], ["tools[1]"])
    with pytest.raises(Unsupported):
        adapt(CURRENT_VLLM, {"tools": [OFFERED_SEARCHES[dialect]]}, dialect, drop_nothing)


def test_hosted_tools_are_sent_to_a_server_that_accepts_them() -> None:
    request = {"tools": [UNSUPPORTED_TOOLS["openai_responses"]]}
    assert adapt(VLLM("v", {"accepts": ["tools"]}, (0, 32)), request, "openai_responses", drop_nothing)[0] == request
