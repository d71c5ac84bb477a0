"""What our vLLM adapter relies on, seen on a real vLLM: when a tool call is held to its schema, and how calls are told."""

import json
from typing import Any

import pytest

from tests.engines.asking import ask, frames, told
from tests.engines.running_vllm import Engine
from tests.engines.shapes import ENOUGH_TOKENS, assert_booking, tool

pytestmark = pytest.mark.engines

NAMED = {"type": "function", "function": {"name": "book"}}
CHOICES = pytest.mark.parametrize(
    ("tool_choice", "finish_reason"), [("required", "tool_calls"), (NAMED, "stop")], ids=["required", "named"]
)
LOOSE = {
    "type": "function",
    "function": {"name": "book", "strict": True, "parameters": {"type": "string", "minLength": 40, "maxLength": 40}},
}


@CHOICES
def test_a_strict_tool_is_called_with_what_its_schema_says(vllm: Engine, tool_choice: object, finish_reason: str):
    choice = told(vllm, tools=[tool("book", strict=True)], tool_choice=tool_choice, parallel_tool_calls=False, max_tokens=ENOUGH_TOKENS)
    [call] = choice["message"]["tool_calls"]
    assert (call["function"]["name"], choice["finish_reason"], choice["message"]["content"]) == ("book", finish_reason, "")
    assert_booking(json.loads(call["function"]["arguments"]))


@CHOICES
def test_a_streamed_call_gives_its_name_first_and_then_pieces_of_arguments(vllm: Engine, tool_choice: object, finish_reason: str):
    first, *others, last = frames(
        vllm, tools=[tool("book", strict=True)], tool_choice=tool_choice, parallel_tool_calls=False, max_tokens=ENOUGH_TOKENS
    )
    opened, *pieces = [call for frame in others for call in frame["choices"][0]["delta"]["tool_calls"]]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert opened["id"]
    assert opened["function"] == {"name": "book"}
    assert all(piece.keys() == {"index", "function"} for piece in pieces)
    assert_booking(json.loads("".join(piece["function"]["arguments"] for piece in pieces)))
    assert last["choices"][0]["finish_reason"] == finish_reason


def test_without_strict_a_tool_may_be_called_with_anything(vllm: Engine):
    choices = ask(vllm, n=8, tools=[tool("book", strict=False)], tool_choice=NAMED, max_tokens=ENOUGH_TOKENS).json()["choices"]
    calls = [call for choice in choices for call in choice["message"].get("tool_calls", [])]
    assert any(not call["function"]["arguments"].startswith("{") for call in calls)


def test_a_call_that_is_cut_off_is_text_in_a_whole_answer(vllm: Engine):
    choice = told(vllm, tools=[tool("book", strict=True)], tool_choice=NAMED, max_tokens=50)
    assert choice["message"]["content"].startswith("<tool_call>")
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "length"


def test_a_call_with_control_characters_is_text_in_a_whole_answer_and_a_call_in_a_stream(vllm: Engine):
    asked: dict[str, Any] = {"tools": [LOOSE], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": ENOUGH_TOKENS}
    whole = told(vllm, **asked)
    assert whole["message"]["content"].startswith("<tool_call>")
    assert "tool_calls" not in whole["message"]
    assert whole["finish_reason"] == "tool_calls"
    assert any("tool_calls" in frame["choices"][0]["delta"] for frame in frames(vllm, **asked))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": []}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool("other", strict=True)], "tool_choice": NAMED}, "tool_choice"),
    ],
    ids=["no tools in the list", "auto without tools", "required without tools", "a name that is not there"],
)
def test_a_choice_without_its_tool_is_refused(vllm: Engine, fields: dict[str, Any], param: str):
    answer = ask(vllm, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_named_tool_and_a_constraint_exclude_each_other(vllm: Engine):
    assert ask(vllm, tools=[tool("book", strict=True)], tool_choice=NAMED, structured_outputs={"regex": "a"}).status_code == 400
