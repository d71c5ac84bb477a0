"""What the adapter of llama.cpp's server stands on, asked of the server itself: where one of these fails, look at the adapter."""

from typing import Any

import httpx
import pytest

from tests.engines.asking import ask, frames, streaming, told
from tests.engines.running_small import CONTEXT, comes_to_rest
from tests.engines.running_vllm import Engine
from tests.engines.small.processing import comes_to_process
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


def test_a_whole_answer_goes_on_when_its_caller_has_gone_while_another_is_written(llamacpp: Engine):
    """It looks for those who have gone only after a second in which it wrote nothing for anybody; so the adapter asks for streams."""
    long: dict[str, Any] = {"messages": HI, "max_tokens": CONTEXT - 500, "ignore_eos": True}
    with streaming(llamacpp, **long) as answer:
        pieces = answer.iter_raw()  # left alone, it would hang up
        next(pieces)
        with pytest.raises(httpx.ReadTimeout):
            ask(llamacpp, patience_s=0.4, **long)
        assert not comes_to_process(llamacpp, 1, within_s=0.8)
        next(pieces)
    assert comes_to_rest(llamacpp, within_s=30)


def test_of_several_answers_it_tells_the_tokens_of_one(llamacpp: Engine):
    whole = ask(llamacpp, n=2, ignore_eos=True).json()
    assert (len(whole["choices"]), whole["usage"]["completion_tokens"]) == (2, 16)
    told = [
        frame["usage"]["completion_tokens"] for frame in frames(llamacpp, n=2, stream_options={"include_usage": True}) if "usage" in frame
    ]
    assert told == [16, 16]


@pytest.mark.parametrize("schema", [True, False])
def test_a_schema_that_is_no_object_constrains_nothing(llamacpp: Engine, schema: bool):
    assert not told(llamacpp, json_schema=schema, seed=1)["message"]["content"].startswith("{")
    assert told(llamacpp, json_schema={}, seed=1)["message"]["content"].startswith("{")


def test_a_token_that_it_does_not_have_is_a_500(llamacpp: Engine):
    answer = httpx.post(f"{llamacpp.base_url}/detokenize", json={"tokens": [999_999]})
    assert (answer.status_code, "_M_range_check" in answer.text) == (500, True)


@pytest.mark.parametrize("field", ["prompt", "messages", "input"])
def test_what_it_does_not_know_it_tokenizes_to_nothing(llamacpp: Engine, field: str):
    answer = httpx.post(f"{llamacpp.base_url}/tokenize", json={field: "hi"})
    assert (answer.status_code, answer.json()) == (200, {"tokens": []})
