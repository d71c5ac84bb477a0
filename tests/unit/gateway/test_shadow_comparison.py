"""Two responses are the same if they say the same, whatever ids, times and frames they have."""

import json
from typing import Any

import pytest

from app.gateway.shadow.comparison import are_same
from tests.support.scripted_engine import chunk, completion

CHAT = "openai_chat"


def call(arguments: str, id: str = "call_1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}}


def encode(response: dict[str, Any]) -> bytes:
    return json.dumps(response).encode()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (completion("Hello."), {**completion("Hello."), "id": "chatcmpl-other", "created": 1}, True),
        (completion("Hello."), completion("Hello"), False),
        (completion(None, tool_calls=[call('{"a":1,"b":2}')]), completion(None, tool_calls=[call('{"b": 2, "a": 1}', "call_2")]), True),
        (completion(None, tool_calls=[call('{"a":1}')]), completion(None, tool_calls=[call('{"a":2}')]), False),
        (completion("Hello."), completion(None, tool_calls=[call("{}")]), False),
        (completion("Hello.", reasoning_content="One way."), completion("Hello.", reasoning_content="Another."), True),
        (completion(None), completion(None), None),
    ],
)
def test_whole_responses_are_compared_by_what_they_say(one: dict[str, Any], other: dict[str, Any], expected: bool | None):
    assert are_same(CHAT, encode(one), encode(other), streamed=False) is expected


def stream(*pieces: str) -> bytes:
    frames = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": each}) for each in pieces), chunk({}, "stop")]
    return b"".join(b"data: " + encode(frame) + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"


def test_streams_are_compared_however_they_are_cut():
    assert are_same(CHAT, stream("Hel", "lo."), stream("Hello", "."), streamed=True) is True
    assert are_same(CHAT, stream("Hel", "lo."), stream("Hel"), streamed=True) is False


@pytest.mark.parametrize("broken", [b"", b"[]", b"\xff", b"null", b'{"error": {"message": "broken"}}'])
def test_what_cannot_be_read_is_neither_the_same_nor_different(broken: bytes):
    assert are_same(CHAT, broken, encode(completion("Hello.")), streamed=False) is None
    assert are_same(CHAT, stream("Hello."), broken, streamed=True) is None
