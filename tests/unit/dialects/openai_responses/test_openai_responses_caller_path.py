"""A field that a target cannot honour is reported by the path where the caller wrote it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.dialect import ChatDialect
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_responses import OpenAIResponses, list_input_items, prepend_items
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import bounded
from tests.support.strategies.openai_responses_strategies import requests

DIALECT = OpenAIResponses()
OTHER_DIALECTS = [CHAT_DIALECTS["openai_chat"], CHAT_DIALECTS["anthropic_messages"]]
PATH_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[]+)")


def value_at(value: Any, path: str) -> Any:
    """Raises KeyError, IndexError or TypeError if the path does not exist."""
    for number, key in PATH_STEP.findall(path):
        value = value[int(number)] if number else value[key]
    return value


def caller_paths(body: Body, target: ChatDialect) -> dict[str, str]:
    """The caller's path for each canonical path that a target reports for a request."""
    named: dict[str, str] = {}

    def record_caller_path(path: str) -> str:
        named[path] = DIALECT.caller_path(body, path)
        return named[path]

    target.write_request(
        DIALECT.read_request(body), DropPolicy(lambda _: True, DIALECT.field_names, "a target", record_caller_path, max_paths=10_000)
    )
    return named


def written_body(chat: ChatRequest) -> Body:
    return Body.read(DIALECT.write_request(chat, DropPolicy(lambda _: True, {}, "a target")).write())


@bounded
@given(requests, st.sampled_from(OTHER_DIALECTS))
def test_every_path_reported_for_a_target_exists_in_the_callers_json(chat: ChatRequest, target: ChatDialect) -> None:
    body = written_body(chat)
    body_json = json.loads(body.write())
    for path in caller_paths(body, target).values():
        value_at(body_json, path)


@bounded
@given(requests)
def test_every_part_has_a_distinct_caller_path_to_its_own_text(chat: ChatRequest) -> None:
    """No two parts share a path."""
    body = written_body(chat)
    body_json = json.loads(body.write())
    messages = DIALECT.read_request(body).messages
    paths = [f"messages[{i}].content[{j}]" for i, message in enumerate(messages) for j in range(len(message.parts))]
    own_paths = [DIALECT.caller_path(body, path) for path in paths]
    assert len(set(own_paths)) == len(own_paths)
    for path, own_path in zip(paths, own_paths, strict=True):
        i, j = map(int, re.findall(r"\d+", path))
        part, found = messages[i].parts[j], value_at(body_json, own_path)
        text: str | None = getattr(part, "text", None)
        if text is not None and not isinstance(found, str):
            found = found.get("text", found.get("refusal", json.dumps(found, ensure_ascii=False)))
            assert text == found or json.dumps(text, ensure_ascii=False)[1:-1] in found
        elif text is not None:
            assert found == text


@bounded
@given(requests, requests, st.sampled_from(OTHER_DIALECTS))
def test_resumed_conversation_reports_the_requests_own_paths_or_previous_response_id(
    before: ChatRequest, chat: ChatRequest, target: ChatDialect
) -> None:
    body, body_json = written_body(chat), json.loads(written_body(chat).write())
    alone = set(caller_paths(Body(body), target).values())
    prepend_items(body, list_input_items(written_body(before)))
    named = set(caller_paths(body, target).values())
    for path in named - {"previous_response_id"}:
        value_at(body_json, path)
    assert {path for path in alone if "content" in path and path.endswith("]")} <= named


FUNCTION = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
PICTURE = {"type": "input_image", "image_url": "https://example.com/a.png"}
REQUEST: dict[str, Any] = {
    "model": "m",
    "instructions": "be brief",
    "input": [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, {**PICTURE, "detail": "low"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]},
        {**FUNCTION, "namespace": "n"},
        {"type": "message", "role": "assistant", "content": "c", "x_new": 1},
        RESULT,
        {**RESULT, "output": [{"type": "input_text", "text": "see"}, PICTURE]},
        {"type": "x_new_call", "id": "x"},
    ],
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("messages[0]", "instructions"),
        ("messages[0].content[0]", "instructions"),
        ("messages[1].content[0]", "input[0].content"),
        ("messages[2].content[1].detail", "input[1].content[1].detail"),
        ("messages[2].content[1].is_error", "input[1].content[1]"),
        ("messages[3]", "input[2]"),
        ("messages[3].content[1]", "input[2].content[1]"),
        ("messages[3].content[1].citations", "input[2].content[1]"),
        ("messages[3].content[2].namespace", "input[3].namespace"),
        ("messages[3].content[3]", "input[4].content"),
        ("messages[3].x_new", "input[4].x_new"),
        ("messages[4].content[0]", "input[5]"),
        ("messages[4].content[0].content[0]", "input[5].output"),
        ("messages[4].content[1].content[1]", "input[6].output[1]"),
        ("messages[5].content[0]", "input[7]"),
        ("messages[5].content[1]", "messages[5].content[1]"),
        ("messages[6]", "messages[6]"),
        ("tools[0]", "tools[0]"),
    ],
)
def test_canonical_path_maps_to_the_callers_path(path: str, expected: str) -> None:
    assert DIALECT.caller_path(Body.read(json.dumps(REQUEST).encode()), path) == expected


def test_string_input_is_a_single_path() -> None:
    body = Body.read(b'{"model": "m", "input": "hi"}')
    assert DIALECT.caller_path(body, "messages[0].content[0]") == "input"
    prepend_items(body, [])
    assert DIALECT.caller_path(body, "messages[0].content[0].x") == "input"
