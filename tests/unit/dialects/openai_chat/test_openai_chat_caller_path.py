"""Dropped and refused parts of a translated chat are named by their path in the caller's own JSON."""

import functools
import json
import re
from typing import Any

import pytest
from hypothesis import given

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_chat import OpenAIChat
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import META, bounded, chat_requests, interleaved_responses

DIALECT = OpenAIChat()
PATH_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[]+)")


def dropped_paths(body: Any, dialect: str) -> list[str]:
    """Returns what is reported as dropped for another dialect where everything may be dropped."""
    request = DIALECT.parse_request(json.dumps(body).encode())
    drop_policy = DropPolicy(lambda field: True, DIALECT.field_names, "an engine", functools.partial(DIALECT.caller_path, request.body))
    CHAT_DIALECTS[dialect].write_request(DIALECT.read_request(request.body), drop_policy)
    return drop_policy.dropped if request.repair is None else [request.repair.original_path(path) for path in drop_policy.dropped]


def value_at(body: Any, path: str) -> Any:
    """Raises KeyError, IndexError or TypeError if the path does not exist."""
    value = body
    for index, key in PATH_STEP.findall(path):
        value = value[int(index)] if index else value[key]
    return value


@pytest.mark.parametrize("dialect", ["openai_responses", "anthropic_messages", "openai_chat"])
@bounded
@given(chat_requests(), interleaved_responses)
def test_dropped_message_paths_exist_in_the_callers_json(dialect: str, chat: ChatRequest, answer: ChatResponse) -> None:
    """The choices of a response follow, as a client sends them back."""
    body = json.loads(DIALECT.write_request(chat, DropPolicy(lambda field: False, {}, "")).write())
    if "messages" not in body:
        return
    body["messages"] += [each["message"] for each in json.loads(DIALECT.write_response(answer, META))["choices"]]
    for path in dropped_paths(body, dialect):
        if path.startswith("messages["):
            value_at(body, path)


TEXT = {"type": "text", "text": "a"}
TEXT_WITH_UNKNOWN_FIELD = {"type": "text", "text": "a", "odd": 1}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
BLOCK = {"type": "reasoning.odd", "odd": "s"}
CUSTOM = {"id": "b", "type": "custom", "custom": {"name": "g", "input": "x"}}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULTS = [
    {"role": "assistant", "tool_calls": [CALL, CUSTOM]},
    {"role": "tool", "tool_call_id": "a", "content": "x", "odd": 1},
    {"role": "tool", "tool_call_id": "b", "content": [TEXT, TEXT_WITH_UNKNOWN_FIELD]},
    {"role": "user", "content": [TEXT, AUDIO, TEXT_WITH_UNKNOWN_FIELD], "name": "anna"},
    {"role": "user", "content": [TEXT_WITH_UNKNOWN_FIELD]},
]


@pytest.mark.parametrize(
    ("messages", "paths"),
    [
        (RESULTS[3:], ["messages[0].content[1]", "messages[0].content[2].odd", "messages[1].content[0].odd"]),
        (
            RESULTS,
            [
                *("messages[1].odd", "messages[2].content[1].odd"),  # a custom call is sent as a call of a function
                *("messages[3].content[1]", "messages[3].content[2].odd", "messages[4].content[0].odd"),
            ],
        ),
        ([{"role": "assistant", "content": "a", "reasoning_content": "hm"}], ["reasoning_content"]),
        ([{"role": "assistant", "content": [TEXT, AUDIO]}], ["messages[0].content[1]"]),
        ([{"role": "assistant", "content": "a", "reasoning_details": [BLOCK]}], ["messages[0].reasoning_details"]),
        ([{"role": "assistant", "content": "a", "audio": {"id": "x"}}], ["messages[0].audio"]),
    ],
    ids=range(6),
)
def test_dropped_content_is_reported_by_the_callers_path(messages: list[Any], paths: list[str]) -> None:
    assert sorted(dropped_paths({"model": "m", "messages": messages}, "anthropic_messages")) == sorted(paths)


@pytest.mark.parametrize("path", ["messages[9]", "messages[9].content[0]", "messages[0].content[7]", "messages[1].content[7]", "tools[0]"])
def test_path_to_nothing_is_returned_unchanged(path: str) -> None:
    body = DIALECT.parse_request(json.dumps({"model": "m", "messages": RESULTS}).encode()).body
    assert DIALECT.caller_path(body, path) == path
