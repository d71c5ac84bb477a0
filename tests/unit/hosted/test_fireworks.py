"""Fireworks: its URLs, the fields that its strict parser would refuse, its grammars, and its errors."""

import json
from typing import Any

import pytest

from providers.canonical.errors import Overloaded, QuotaExhausted, Unsupported, UpstreamRejected
from providers.canonical.rate_limit_headers import read_rate_limits
from providers.catalogue import build_provider
from providers.hosted.fireworks.adapter import Fireworks
from tests.support.adapted_body import adapt_body

FIREWORKS = Fireworks("fw", {})
USER = [{"role": "user", "content": "Hi"}]
MODEL = "accounts/fireworks/models/kimi-k2p6"


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai_chat", "/chat/completions"),
        ("openai_completions", "/completions"),
        ("openai_embeddings", "/embeddings"),
        ("openai_responses", "/responses"),
        ("anthropic_messages", "/messages"),
    ],
)
def test_every_dialect_is_below_the_inference_v1_path(dialect: str, path: str) -> None:
    provider = build_provider("fireworks", "fw", {})
    assert str(provider.url("https://api.fireworks.ai/inference/v1", dialect)) == "https://api.fireworks.ai/inference/v1" + path
    assert str(provider.url("http://127.0.0.1:9/a", dialect)) == "http://127.0.0.1:9/a/inference/v1" + path
    assert provider.headers("k", dialect) == [("authorization", "Bearer k")]


def test_tool_hints_are_dropped_and_reported() -> None:
    tool = {"name": "add", "input_schema": {"type": "object", "properties": {"cache_control": {"type": "string"}}}}
    tools_with_hints = [{**tool, "cache_control": {"type": "ephemeral"}}, {**tool, "eager_input_streaming": True}]
    request = {"model": MODEL, "max_tokens": 9, "messages": USER, "tools": tools_with_hints}
    sent, dropped, _ = adapt_body(FIREWORKS, request, dialect="anthropic_messages")
    assert sent == {**request, "tools": [tool, tool]}
    assert dropped == ["tools[].cache_control", "tools[].eager_input_streaming"]
    request_without_hints = {**request, "tools": [tool]}
    assert adapt_body(FIREWORKS, request_without_hints, dialect="anthropic_messages")[:2] == (request_without_hints, [])


@pytest.mark.parametrize("field", ["store", "safety_identifier", "prompt_cache_retention"])
def test_unknown_hint_fields_are_dropped_and_reported(field: str) -> None:
    sent, dropped, _ = adapt_body(FIREWORKS, {"model": MODEL, "messages": USER, field: "x"})
    assert (sent, dropped) == ({"model": MODEL, "messages": USER}, [field])


@pytest.mark.parametrize(("field", "value"), [("min_tokens", 4), ("top_a", 0.5), ("stop", ["a", "b", "c", "d", "e"])])
def test_field_that_fireworks_rejects_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        adapt_body(FIREWORKS, {"model": MODEL, "messages": USER, field: value})
    assert refused.value.param == field


GBNF = 'root ::= "a"'


@pytest.mark.parametrize(
    ("field", "value", "grammar", "how"),
    [
        ("guided_grammar", GBNF, GBNF, "enforced"),
        ("guided_choice", ["yes", "no"], 'root ::= "yes" | "no"', "converted"),
        ("guided_regex", "[ab]", "root ::= [a-b]", "converted"),
    ],
)
def test_grammar_choice_and_regex_become_a_gbnf_response_format(field: str, value: Any, grammar: str, how: str) -> None:
    sent, _, constraint_plan = adapt_body(FIREWORKS, {"model": MODEL, "messages": USER, field: value})
    assert sent["response_format"] == {"type": "grammar", "grammar": grammar}
    assert field not in sent
    assert constraint_plan is not None
    assert constraint_plan.enforcement == how


def test_grammar_that_is_not_gbnf_is_refused() -> None:
    with pytest.raises(Unsupported, match="GBNF"):
        adapt_body(FIREWORKS, {"model": MODEL, "messages": USER, "guided_grammar": 'start: "a"'})


def test_json_schema_response_format_is_sent_unchanged_and_enforced() -> None:
    request = {
        "model": MODEL,
        "messages": USER,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    }
    sent, _, constraint_plan = adapt_body(FIREWORKS, request)
    assert sent == request
    assert constraint_plan is not None
    assert constraint_plan.enforcement == "enforced"


@pytest.mark.parametrize(("status", "error"), [(412, QuotaExhausted), (503, Overloaded), (400, UpstreamRejected)])
def test_suspended_account_error_is_classified_by_status(status: int, error: type[Exception]) -> None:
    body = {"error": {"object": "error", "type": "invalid_request_error", "message": "Account acme is suspended."}}
    read_error = FIREWORKS.read_error(status, {}, json.dumps(body).encode())
    assert (type(read_error), read_error.upstream_code) == (error, "invalid_request_error")


def test_rate_limit_headers_are_read_with_their_resource_names() -> None:
    assert FIREWORKS.reports_rate_limits
    headers = [(b"x-ratelimit-limit-tokens-prompt", b"60000"), (b"x-ratelimit-remaining-tokens-prompt", b"59900")]
    rate_limits = read_rate_limits(headers, 0.0, 0.0)
    assert rate_limits is not None
    assert [(limit.resource, limit.limit, limit.remaining) for limit in rate_limits.limits] == [("tokens-prompt", 60000.0, 59900.0)]
