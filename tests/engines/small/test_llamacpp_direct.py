"""What the adapter of llama.cpp's server stands on, asked of the server itself: where one of these fails, look at the adapter."""

from typing import Any

import pytest

from tests.engines.asking import ask, frames, streaming, told
from tests.engines.running_small import CONTEXT, comes_to_rest
from tests.engines.running_vllm import Engine
from tests.engines.small.said import HI

pytestmark = pytest.mark.engines

SIDE: dict[str, Any] = {"type": "object", "properties": {"side": {"enum": ["a", "b"]}}, "required": ["side"], "additionalProperties": False}
F, G = ({"type": "function", "function": {"name": name, "parameters": SIDE}} for name in "fg")


@pytest.mark.parametrize("words", ["guided_json", "structured_outputs"])
def test_words_of_others_constrain_nothing(llamacpp: Engine, words: str):
    said = told(llamacpp, **{words: SIDE if words == "guided_json" else {"json": SIDE}})
    assert not said["message"]["content"].startswith("{")


def test_a_flat_json_schema_is_any_object(llamacpp: Engine):
    flat = told(llamacpp, max_tokens=400, response_format={"type": "json_schema", "schema": SIDE})["message"]["content"]
    nested = told(llamacpp, max_tokens=400, response_format={"type": "json_schema", "json_schema": {"schema": SIDE}})["message"]["content"]
    assert flat.startswith("{") and '"side"' not in flat
    assert '"side"' in nested


def test_keywords_that_its_converter_does_not_know_are_passed_over(llamacpp: Engine):
    numbers = [int(told(llamacpp, json_schema={"type": "integer", "multipleOf": 7}, seed=seed)["message"]["content"]) for seed in range(4)]
    assert any(number % 7 for number in numbers)


def test_a_pattern_that_its_converter_does_not_know_is_any_string(llamacpp: Engine):
    said = {"json_schema": {"type": "string", "pattern": "^(?=a)a$"}, "max_tokens": 400}
    assert told(llamacpp, **said)["message"]["content"] != '"a"'


def test_a_named_tool_is_auto_to_it(llamacpp: Engine):
    """Chance calls one or the other, or none; a choice that is obeyed calls the same each time."""
    asked: dict[str, Any] = {"tools": [F, G], "tool_choice": {"type": "function", "function": {"name": "g"}}, "max_tokens": 300}
    answers = [ask(llamacpp, **asked, seed=seed) for seed in range(6)]
    messages = [answer.json()["choices"][0]["message"] for answer in answers if answer.status_code == 200]
    assert any({call["function"]["name"] for call in message.get("tool_calls", ())} != {"g"} for message in messages)


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"messages": [{"role": "user", "content": "x" * (CONTEXT + 1000)}]}, 400, "context"),
        ({"messages": [{"role": "user", "content": "x" * (CONTEXT + 1000)}], "stream": True}, 400, "context"),
        ({"tools": [F], "grammar": 'root ::= "a"'}, 400, "with tools"),
        ({"tools": [F], "logprobs": True, "stream": True}, 400, "tools + stream"),
        ({"top_logprobs": 2}, 400, "logprobs"),
        ({"json_schema": SIDE, "grammar": 'root ::= "a"'}, 500, "both json_schema and grammar"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]},
            500,
            "input is not supported",
        ),
    ],
    ids=["too long", "too long, streamed", "grammar", "logprobs", "top_logprobs", "two constraints", "image"],
)
def test_what_is_wrong_is_told_before_an_answer_begins(llamacpp: Engine, fields: dict[str, Any], status: int, says: str):
    answer = ask(llamacpp, **fields)
    assert (answer.status_code, says in answer.json()["error"]["message"]) == (status, True), answer.text


def test_logprobs_without_tops_are_none_at_all(llamacpp: Engine):
    assert "logprobs" not in told(llamacpp, logprobs=True, top_logprobs=0)
    assert told(llamacpp, logprobs=True, top_logprobs=1)["logprobs"]["content"]


def test_usage_comes_in_a_chunk_of_its_own_for_who_asks(llamacpp: Engine):
    assert frames(llamacpp, stream_options={"include_usage": True})[-1]["usage"]["completion_tokens"] == 16
    assert not any("usage" in frame for frame in frames(llamacpp))


def test_closing_the_connection_stops_it(llamacpp: Engine):
    with streaming(llamacpp, messages=HI, max_tokens=CONTEXT - 500, ignore_eos=True) as answer:
        next(answer.iter_raw())
    assert comes_to_rest(llamacpp, within_s=3)
