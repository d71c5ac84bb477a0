"""Anthropic Messages fields that a target cannot honour are named by their path in the caller's own JSON."""

import functools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import OpaqueState
from providers.canonical.raw_json import Body
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.anthropic_messages.opaque_states import write_call_state
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy
from tests.support.strategies.anthropic_strategies import requests, texts
from tests.support.strategies.chat_strategies import bounded

DIALECT = AnthropicMessages()
STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
CARRIER_BLOCK = write_call_state("c", OpaqueState("gemini", "s"))

# Reported for reasoning anywhere in the history, and for a prefilled response at its end.
HISTORY_PATHS = {"thinking", "thinking.signature", "prefill"}

NO_FIELDS: dict[str, int] = {}
extra_fields = st.sampled_from([NO_FIELDS, {"new": 1}])


@st.composite
def request_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Bodies as callers write them: also with strings as content, and with carrier blocks, which are no canonical parts."""
    chat = draw(requests())
    body: dict[str, Any] = json.loads(DIALECT.write_request(chat, DropPolicy(lambda _: False, {}, "a host")).write())
    if draw(st.booleans()):
        body["output_config"] = {**body.get("output_config", {}), "task_budget": {"type": "tokens", "total": 9}}
    for message in body["messages"]:
        if isinstance(message["content"], str):
            continue
        blocks: list[dict[str, Any]] = message["content"]
        for block in blocks:
            block.update(draw(extra_fields))
        if message["role"] == "assistant" and draw(st.booleans()):
            blocks.insert(draw(st.integers(0, len(blocks))), CARRIER_BLOCK)
        if message["role"] == "user":
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": "c", "content": draw(texts)}
            blocks.insert(0, result)
    return body


def path_exists(body: dict[str, Any], path: str) -> bool:
    node: Any = body
    for key, index in STEP.findall(path):
        try:
            node = node[key] if key else node[int(index)]
        except (KeyError, IndexError, TypeError):
            return False
    return True


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
@bounded
@given(body=request_bodies())
def test_every_dropped_path_exists_in_the_callers_json(target: str, body: dict[str, Any]) -> None:
    parsed = Body.read(json.dumps(body).encode())
    drop_policy = DropPolicy(
        lambda _: True, DIALECT.field_names, "a host", functools.partial(DIALECT.caller_path, parsed), max_paths=10_000
    )
    CHAT_DIALECTS[target].write_request(DIALECT.read_request(parsed), drop_policy)
    assert [path for path in drop_policy.dropped if path not in HISTORY_PATHS and not path_exists(body, path)] == []


RESULT_BLOCKS: list[dict[str, Any]] = [
    {"type": "tool_result", "tool_use_id": "a", "content": "in a string"},
    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]},
]
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "I"}, CARRIER_BLOCK, {"type": "tool_use", "id": "c", "name": "f", "input": {}}],
    },
    {"role": "user", "content": RESULT_BLOCKS},
]
INSTRUCTIONS = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief"}]


@pytest.mark.parametrize(
    ("system", "path", "expected"),
    [
        (None, "messages[0].content[0]", "messages[0].content"),
        (None, "messages[1].content[1].caller", "messages[1].content[2].caller"),
        (None, "messages[2].content[0].content[0]", "messages[2].content[0].content"),
        (None, "messages[2].content[1].content[1].new", "messages[2].content[1].content[1].new"),
        (None, "messages[2].content[1].is_error", "messages[2].content[1].is_error"),
        (None, "messages[2].name", "messages[2].name"),
        ("Be brief", "messages[0].content[0]", "system"),
        ("Be brief", "messages[2].content[1].caller", "messages[1].content[2].caller"),
        (INSTRUCTIONS, "messages[0].content[1].citations", "system[1].citations"),
        (INSTRUCTIONS, "messages[0]", "system"),
        (INSTRUCTIONS, "messages[3].new", "messages[2].new"),
        (INSTRUCTIONS, "messages[0].content[9]", "messages[0].content[9]"),
        (None, "messages[9].content[0]", "messages[9].content[0]"),
        (None, "messages[0].content[0].content[0]", "messages[0].content"),
    ],
)
def test_canonical_path_is_mapped_to_the_callers_path(system: Any, path: str, expected: str) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": MESSAGES, "system": system}
    assert DIALECT.caller_path(Body.read(json.dumps(body).encode()), path) == expected
