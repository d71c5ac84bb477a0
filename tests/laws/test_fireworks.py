"""Fireworks: its addresses, what its strict reading would refuse, its grammars, and its own words for errors."""

import json
from typing import Any

import pytest

from providers.canonical.errors import Overloaded, QuotaExhausted, Unsupported, UpstreamRejected
from providers.canonical.rate_limit_headers import read_rate_limits
from providers.catalogue import build_provider
from providers.hosted.fireworks.adapter import Fireworks
from tests.laws.bending import bent

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
def test_all_its_dialects_are_below_one_path(dialect: str, path: str) -> None:
    provider = build_provider("fireworks", "fw", {})
    assert str(provider.url("https://api.fireworks.ai/inference/v1", dialect)) == "https://api.fireworks.ai/inference/v1" + path
    assert str(provider.url("http://127.0.0.1:9/a", dialect)) == "http://127.0.0.1:9/a/inference/v1" + path
    assert provider.headers("k", dialect) == [("authorization", "Bearer k")]


def test_hints_of_tools_go_and_are_reported() -> None:
    tool = {"name": "add", "input_schema": {"type": "object", "properties": {"cache_control": {"type": "string"}}}}
    hinted = [{**tool, "cache_control": {"type": "ephemeral"}}, {**tool, "eager_input_streaming": True}]
    asked = {"model": MODEL, "max_tokens": 9, "messages": USER, "tools": hinted}
    sent, dropped, _ = bent(FIREWORKS, asked, dialect="anthropic_messages")
    assert sent == {**asked, "tools": [tool, tool]}
    assert dropped == ["tools[].cache_control", "tools[].eager_input_streaming"]
    plain = {**asked, "tools": [tool]}
    assert bent(FIREWORKS, plain, dialect="anthropic_messages")[:2] == (plain, [])


@pytest.mark.parametrize("field", ["store", "safety_identifier", "prompt_cache_retention"])
def test_hints_that_it_does_not_know_go_and_are_reported(field: str) -> None:
    sent, dropped, _ = bent(FIREWORKS, {"model": MODEL, "messages": USER, field: "x"})
    assert (sent, dropped) == ({"model": MODEL, "messages": USER}, [field])


@pytest.mark.parametrize(("field", "value"), [("min_tokens", 4), ("verbosity", "low"), ("top_a", 0.5), ("stop", ["a", "b", "c", "d", "e"])])
def test_what_it_would_refuse_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        bent(FIREWORKS, {"model": MODEL, "messages": USER, field: value})
    assert refused.value.param == field


GBNF = 'root ::= "a"'


@pytest.mark.parametrize(
    ("word", "value", "grammar", "how"),
    [
        ("guided_grammar", GBNF, GBNF, "enforced"),
        ("guided_choice", ["yes", "no"], 'root ::= "yes" | "no"', "converted"),
        ("guided_regex", "[ab]", "root ::= [a-b]", "converted"),
    ],
)
def test_grammars_are_asked_for_in_its_words(word: str, value: Any, grammar: str, how: str) -> None:
    sent, _, guiding = bent(FIREWORKS, {"model": MODEL, "messages": USER, word: value})
    assert sent["response_format"] == {"type": "grammar", "grammar": grammar}
    assert word not in sent
    assert guiding is not None
    assert guiding.enforcement == how


def test_other_grammars_than_its_own_are_refused() -> None:
    with pytest.raises(Unsupported, match="GBNF"):
        bent(FIREWORKS, {"model": MODEL, "messages": USER, "guided_grammar": 'start: "a"'})


def test_a_schema_stays_as_its_caller_says_it() -> None:
    asked = {
        "model": MODEL,
        "messages": USER,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    }
    sent, _, guiding = bent(FIREWORKS, asked)
    assert sent == asked
    assert guiding is not None
    assert guiding.enforcement == "enforced"


@pytest.mark.parametrize(("status", "error"), [(412, QuotaExhausted), (503, Overloaded), (400, UpstreamRejected)])
def test_an_account_that_is_suspended_is_exhausted(status: int, error: type[Exception]) -> None:
    body = {"error": {"object": "error", "type": "invalid_request_error", "message": "Account acme is suspended."}}
    read = FIREWORKS.read_error(status, {}, json.dumps(body).encode())
    assert (type(read), read.upstream_code) == (error, "invalid_request_error")


def test_what_it_lets_through_is_read_by_its_names() -> None:
    assert FIREWORKS.reports_rate_limits
    said = [(b"x-ratelimit-limit-tokens-prompt", b"60000"), (b"x-ratelimit-remaining-tokens-prompt", b"59900")]
    allowance = read_rate_limits(said, 0.0, 0.0)
    assert allowance is not None
    assert [(room.resource, room.limit, room.remaining) for room in allowance.limits] == [("tokens-prompt", 60000.0, 59900.0)]
