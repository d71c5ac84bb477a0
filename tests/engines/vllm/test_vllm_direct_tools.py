"""Facts on which the vLLM adapter relies, checked at a real vLLM: when a tool call obeys its schema, and how calls are returned."""

import json
from typing import Any

import pytest

from tests.engines.constraint_samples import SUFFICIENT_TOKENS, assert_booking, booking_tool
from tests.engines.direct_requests import chat_choice, post_chat, stream_chunks
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

NAMED_TOOL_CHOICE = {"type": "function", "function": {"name": "book"}}
EACH_TOOL_CHOICE = pytest.mark.parametrize(
    ("tool_choice", "finish_reason"), [("required", "tool_calls"), (NAMED_TOOL_CHOICE, "stop")], ids=["required", "named"]
)
UNSTRUCTURED_TOOL = {
    "type": "function",
    "function": {"name": "book", "strict": True, "parameters": {"type": "string", "minLength": 40, "maxLength": 40}},
}


@EACH_TOOL_CHOICE
def test_strict_tool_call_obeys_its_schema(vllm: Engine, tool_choice: object, finish_reason: str):
    choice = chat_choice(
        vllm, tools=[booking_tool("book", strict=True)], tool_choice=tool_choice, parallel_tool_calls=False, max_tokens=SUFFICIENT_TOKENS
    )
    [call] = choice["message"]["tool_calls"]
    assert (call["function"]["name"], choice["finish_reason"], choice["message"]["content"]) == ("book", finish_reason, "")
    assert_booking(json.loads(call["function"]["arguments"]))


@EACH_TOOL_CHOICE
def test_streamed_tool_call_has_its_name_first_then_argument_fragments(vllm: Engine, tool_choice: object, finish_reason: str):
    first, *others, last = stream_chunks(
        vllm, tools=[booking_tool("book", strict=True)], tool_choice=tool_choice, parallel_tool_calls=False, max_tokens=SUFFICIENT_TOKENS
    )
    opened, *pieces = [call for frame in others for call in frame["choices"][0]["delta"]["tool_calls"]]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert opened["id"]
    assert opened["function"] == {"name": "book"}
    assert all(piece.keys() == {"index", "function"} for piece in pieces)
    assert_booking(json.loads("".join(piece["function"]["arguments"] for piece in pieces)))
    assert last["choices"][0]["finish_reason"] == finish_reason


def test_non_strict_tool_call_may_violate_its_schema(vllm: Engine):
    choices = post_chat(
        vllm, n=8, tools=[booking_tool("book", strict=False)], tool_choice=NAMED_TOOL_CHOICE, max_tokens=SUFFICIENT_TOKENS
    ).json()["choices"]
    calls = [call for choice in choices for call in choice["message"].get("tool_calls", [])]
    assert any(not call["function"]["arguments"].startswith("{") for call in calls)


def test_truncated_tool_call_is_text_in_an_unstreamed_response(vllm: Engine):
    choice = chat_choice(vllm, tools=[booking_tool("book", strict=True)], tool_choice=NAMED_TOOL_CHOICE, max_tokens=50)
    assert choice["message"]["content"].startswith("<tool_call>")
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "length"


def test_tool_call_with_control_characters_is_text_unstreamed_and_a_call_streamed(vllm: Engine):
    fields: dict[str, Any] = {
        "tools": [UNSTRUCTURED_TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": SUFFICIENT_TOKENS,
    }
    unstreamed = chat_choice(vllm, **fields)
    assert unstreamed["message"]["content"].startswith("<tool_call>")
    assert "tool_calls" not in unstreamed["message"]
    assert unstreamed["finish_reason"] == "tool_calls"
    assert any("tool_calls" in frame["choices"][0]["delta"] for frame in stream_chunks(vllm, **fields))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": []}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [booking_tool("other", strict=True)], "tool_choice": NAMED_TOOL_CHOICE}, "tool_choice"),
    ],
    ids=["no tools in the list", "auto without tools", "required without tools", "a name that is not there"],
)
def test_tool_choice_without_its_tool_is_a_400(vllm: Engine, fields: dict[str, Any], param: str):
    answer = post_chat(vllm, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_named_tool_choice_beside_a_constraint_is_a_400(vllm: Engine):
    assert (
        post_chat(
            vllm, tools=[booking_tool("book", strict=True)], tool_choice=NAMED_TOOL_CHOICE, structured_outputs={"regex": "a"}
        ).status_code
        == 400
    )
