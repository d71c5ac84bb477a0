"""Marks of reasoning state: only state is marked, and each provider gets what it made."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import ModelConfig, Target
from app.domain.snapshot import Plan
from app.gateway.attempts.reasoning_state import MarkedState, is_state_refusal, mark_of, marker_for
from app.store.configuration.snapshots import build_snapshot
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import read_error


def plan_of(*providers: str) -> Plan:
    targets = tuple(Target(provider, "m") for provider in providers)
    return Plan("m", "m", targets, ("m",) * len(targets), build_snapshot(1, {}, {"m": ModelConfig(targets)}))


def marker(provider: str = "a") -> Callable[[bytes], bytes]:
    mark = marker_for(plan_of("a", "b"), provider)
    assert mark is not None
    return mark


def body_for(body: Any, provider: str, dialect: str) -> tuple[Any, list[str]]:
    changed, dropped = MarkedState(Body.read(json.dumps(body).encode()), dialect).body_for(provider)
    return json.loads(changed.write()), dropped


def test_nothing_is_marked_where_one_provider_serves_the_model():
    assert marker_for(plan_of("a"), "a") is None and marker_for(plan_of("a", "a"), "a") is None


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "reasoning", "encrypted_content": "STATE"}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"STATE"}}',
        '{"type":"thinking","thinking":"It is \\"so\\".","signature":"STATE"}',
        '{"type":"redacted_thinking","data":"STATE"}',
        '{"type":"reasoning.encrypted","data":"nx1.anthropic_messages.STATE"}',
    ],
)
def test_state_is_marked_once(text: str):
    marked = marker()(text.encode()).decode()
    assert marked.replace(f"nx1.@{mark_of('a').decode()}.", "") == text
    assert marked.count("nx1.@") == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"tool_use","name":"sign","input":{"signature":"STATE","data":"STATE"}}',
        '{"type":"signature_delta","signature":""}',
        '{"encrypted_content": null}',
        '{"encrypted_content": ""}',
        json.dumps({"text": '"encrypted_content": "STATE" {"type":"signature_delta","signature":"STATE"}'}),
        '{"type":"image","source":{"type":"base64","data":"STATE"}}',
    ],
)
def test_anything_else_is_not_marked(text: str):
    assert marker()(text.encode()).decode() == text


def test_provider_gets_its_own_state_unmarked_and_none_of_anothers():
    own, other = (f"nx1.@{mark_of(provider).decode()}." for provider in "ab")
    reasoning: list[Any] = [{"type": "reasoning", "encrypted_content": f"{mark}state", "summary": []} for mark in (own, other)]
    body: Any = {"model": "m", "input": [{"role": "user", "content": "Hi"}, *reasoning, {"type": "message", "content": own}]}
    changed, dropped = body_for(body, "a", "openai_responses")
    assert dropped == ["input[2]"]
    assert [item.get("encrypted_content") for item in changed["input"]] == [None, "state", None]
    untouched, dropped = body_for({"input": [{"type": "reasoning", "encrypted_content": "unmarked"}]}, "a", "openai_responses")
    assert not dropped and untouched["input"][0]["encrypted_content"] == "unmarked"


def test_turn_of_calls_without_its_thinking_is_sent_with_thinking_off():
    other = f"nx1.@{mark_of('b').decode()}.state"
    turn: list[Any] = [
        {"type": "thinking", "thinking": "Hm.", "signature": other},
        {"type": "tool_use", "id": "1", "name": "f", "input": {}},
    ]
    messages: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": turn},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]},
    ]
    changed, dropped = body_for({"messages": messages, "thinking": {"type": "enabled"}}, "a", "anthropic_messages")
    assert dropped == ["messages[1].content[0]", "thinking"] and "thinking" not in changed
    assert [block["type"] for block in changed["messages"][1]["content"]] == ["tool_use"]


def test_message_that_was_nothing_but_thinking_is_left_out():
    other = f"nx1.@{mark_of('b').decode()}.state"
    messages: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": other}]},
    ]
    changed, dropped = body_for({"messages": messages}, "a", "anthropic_messages")
    assert changed["messages"] == messages[:1] and dropped == ["messages[1].content[0]"]


@given(st.recursive(st.text() | st.none(), lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=20))
def test_what_is_marked_and_unmarked_is_the_same(value: Any):
    body = {"input": [{"type": "reasoning", "encrypted_content": "s"}], "metadata": value}
    text = json.dumps(body)
    marked = json.loads(marker()(text.encode()))
    assert body_for(marked, "a", "openai_responses") == (body, [])


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        ({"message": "The encrypted content gAAA could not be verified.", "code": "invalid_encrypted_content"}, True),
        ({"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}, True),
        ({"message": "Thought signature is not valid"}, True),
        ({"message": "temperature must be at most 2"}, False),
    ],
)
def test_refusals_of_state_are_recognised(error: dict[str, str], is_refusal: bool):
    assert is_state_refusal(read_error(400, {}, json.dumps({"error": error}).encode())) is is_refusal
