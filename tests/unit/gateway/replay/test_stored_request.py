"""A recorded request is sent again as it was, but for its model, its episode, its tags and what it would do elsewhere."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.gateway.replay.stored_request import NotRunnable, ReplayTarget, prepare_request

bounded = settings(max_examples=60, deadline=None)
MODEL = ReplayTarget("new", None, is_function=False)
FUNCTION = ReplayTarget("assistant", "short", is_function=True)
ARM = ReplayTarget("new", "b", is_function=False)
REPLACED = {
    *("model", "store", "model_name", "function_name", "variant_name", "tags", "background", "episode_id"),
    *("narthex::variant_name", "tensorzero::variant_name", "tensorzero::episode_id", "tensorzero::tags"),
    *("namespace", "tensorzero::namespace"),
}
EFFECTS = {"web_search_options", "mcp_servers", "container", "plugins", "extra_body", "tensorzero::extra_body"}
TOOLS = {"tools", "additional_tools", "provider_tools", "tensorzero::provider_tools"}
CONTINUED = {"previous_response_id", "conversation"}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["messages", "input", "system", "temperature", "max_tokens", "stream", "user", "metadata", "x"]) | st.text(
    max_size=10
)
bodies = st.dictionaries(names.filter(lambda name: name not in REPLACED | EFFECTS | TOOLS | CONTINUED), values, max_size=6)


def sent(route: str, body: dict[str, Any], target: ReplayTarget = MODEL, function: str | None = None) -> dict[str, Any]:
    return json.loads(prepare_request(route, json.dumps(body).encode(), function, target).raw)


def reason(route: str, raw: bytes, target: ReplayTarget = MODEL, function: str | None = None) -> str:
    with pytest.raises(NotRunnable) as refused:
        prepare_request(route, raw, function, target)
    return refused.value.reason


@bounded
@given(bodies, st.sampled_from(["openai_chat", "anthropic_messages", "openai_completions"]))
def test_whatever_else_a_caller_sent_is_sent_again(body: dict[str, Any], route: str):
    kept = {name: value for name, value in body.items() if value != "[withheld]"}
    assert sent(route, {"model": "old", **body}) == {**kept, "model": "new"}


@bounded
@given(bodies)
def test_sending_again_what_was_sent_again_changes_nothing(body: dict[str, Any]):
    for route in ("openai_chat", "openai_responses", "tensorzero_inference"):
        once = sent(route, body)
        assert sent(route, once) == once


@pytest.mark.parametrize(
    ("route", "target", "expected"),
    [
        ("openai_chat", MODEL, {"model": "new"}),
        ("openai_chat", ARM, {"model": "new", "narthex::variant_name": "b"}),
        ("anthropic_messages", FUNCTION, {"model": "narthex::function_name::assistant", "narthex::variant_name": "short"}),
        ("openai_responses", MODEL, {"model": "new", "store": False}),
        ("tensorzero_inference", MODEL, {"model_name": "new"}),
        ("tensorzero_inference", FUNCTION, {"function_name": "assistant", "variant_name": "short"}),
    ],
)
def test_each_api_names_what_answers_instead_and_nothing_of_its_caller(route: str, target: ReplayTarget, expected: dict[str, Any]):
    of_caller = {
        **{"model": "old", "model_name": "old", "function_name": "f", "variant_name": "v", "narthex::variant_name": "v"},
        **{"tensorzero::variant_name": "v", "episode_id": "e", "tensorzero::episode_id": "e", "tensorzero::tags": {"a": "b"}},
        **{"background": True, "store": True, "api_key": "[withheld]", "tensorzero::namespace": "n"},
    }
    of_route = {"tags": {"a": "b"}, "namespace": "n"} if route == "tensorzero_inference" else {}
    if route == "tensorzero_inference":
        del of_caller["model"]
    else:
        of_caller = {name: value for name, value in of_caller.items() if name not in ("model_name", "function_name", "variant_name")}
    assert sent(route, {**of_caller, **of_route}, target) == expected


ACTING: list[dict[str, Any]] = [
    {"tensorzero::extra_body": [{"pointer": "/web_search_options", "value": {}, "model_name": "m", "provider_name": "p"}]},
    {"tools": [{"type": "web_search"}]},
    {"tools": [{"type": "function", "name": "f"}, {"type": "code_interpreter"}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"tools": [{"type": ["function"]}]},
    {"additional_tools": [{"type": "mcp"}]},
    {"provider_tools": [{"tool": {}}]},
    {"tensorzero::provider_tools": [{"tool": {}}]},
    {"container": "c"},
    {"mcp_servers": [{}]},
    {"plugins": [{}]},
    {"web_search_options": {}},
]


@pytest.mark.parametrize("body", ACTING, ids=json.dumps)
def test_nothing_is_sent_again_that_acts_elsewhere(body: dict[str, Any]):
    assert reason("openai_responses", json.dumps({"input": "Hello", **body}).encode()) == "side_effects"


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "name": "g"}, {"name": "h"}]},
        {"tools": [], "provider_tools": [], "mcp_servers": None, "web_search_options": None},
        {"previous_response_id": None, "conversation": None},
    ],
)
def test_tools_of_the_caller_and_empty_fields_are_no_effects(body: dict[str, Any]):
    assert sent("openai_chat", body) == {**body, "model": "new"}


def test_the_reason_says_why_a_record_is_not_enough():
    assert reason("openai_chat", b'{"messages": []}', MODEL, "assistant") == "function"
    assert reason("openai_responses", b'{"input": "and?", "previous_response_id": "resp_1"}') == "continued"
    assert reason("openai_responses", b'{"input": "and?", "conversation": "conv_1"}') == "continued"
    # The half of a body, one that is none, and one whose tools cannot be looked through.
    for raw in (b"", b'{"messages": [', b"[]", b"null", b"\xff", b'{"tools": ["f"]}', b'{"tools": ' + b"[" * 100_000):
        assert reason("openai_chat", raw) == "unreadable", raw[:20]


def test_the_judge_reads_what_was_to_be_answered_and_nothing_else():
    body = {"model": "old", "user": "ann", "messages": [{"role": "user", "content": "Why?"}], "tools": [{"name": "f"}], "system": None}
    prepared = prepare_request("openai_chat", json.dumps(body).encode(), None, MODEL)
    assert json.loads(prepared.prompt) == {"messages": body["messages"], "tools": body["tools"]}
