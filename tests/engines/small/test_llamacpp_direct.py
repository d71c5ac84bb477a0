"""Facts on which the llama.cpp adapter relies, checked at a real server: if one of these tests fails, review the adapter."""

from typing import Any

import httpx2
import pytest

from tests.engines.direct_requests import chat_choice, open_stream, post_chat, stream_chunks
from tests.engines.running_small_engines import CONTEXT, becomes_idle
from tests.engines.small.constraint_callers import HI
from tests.engines.small.llamacpp_metrics import reaches_processing
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

SIDE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"side": {"enum": ["a", "b"]}},
    "required": ["side"],
    "additionalProperties": False,
}
TOOL_F, TOOL_G = ({"type": "function", "function": {"name": name, "parameters": SIDE_SCHEMA}} for name in "fg")


@pytest.mark.parametrize("field", ["guided_json", "structured_outputs"])
def test_constraint_fields_of_vllm_are_ignored(llamacpp: Engine, field: str):
    choice = chat_choice(llamacpp, **{field: SIDE_SCHEMA if field == "guided_json" else {"json": SIDE_SCHEMA}})
    assert not choice["message"]["content"].startswith("{")


def test_flat_json_schema_is_taken_as_any_object(llamacpp: Engine):
    flat = chat_choice(llamacpp, max_tokens=400, response_format={"type": "json_schema", "schema": SIDE_SCHEMA})["message"]["content"]
    nested = chat_choice(llamacpp, max_tokens=400, response_format={"type": "json_schema", "json_schema": {"schema": SIDE_SCHEMA}})[
        "message"
    ]["content"]
    assert flat.startswith("{") and '"side"' not in flat
    assert '"side"' in nested


def test_unknown_schema_keywords_are_ignored(llamacpp: Engine):
    numbers = [
        int(chat_choice(llamacpp, json_schema={"type": "integer", "multipleOf": 7}, seed=seed)["message"]["content"]) for seed in range(4)
    ]
    assert any(number % 7 for number in numbers)


def test_unsupported_pattern_allows_any_string(llamacpp: Engine):
    extra = {"json_schema": {"type": "string", "pattern": "^(?=a)a$"}, "max_tokens": 400}
    assert chat_choice(llamacpp, **extra)["message"]["content"] != '"a"'


def test_named_tool_choice_is_treated_as_auto(llamacpp: Engine):
    """A random model calls one, the other or none; with an obeyed choice it would call the same each time."""
    fields: dict[str, Any] = {"tools": [TOOL_F, TOOL_G], "tool_choice": {"type": "function", "function": {"name": "g"}}, "max_tokens": 300}
    answers = [post_chat(llamacpp, **fields, seed=seed) for seed in range(6)]
    messages = [answer.json()["choices"][0]["message"] for answer in answers if answer.status_code == 200]
    assert any({call["function"]["name"] for call in message.get("tool_calls", ())} != {"g"} for message in messages)


@pytest.mark.parametrize(
    ("fields", "status", "message_part"),
    [
        ({"messages": [{"role": "user", "content": "x" * (CONTEXT + 1000)}]}, 400, "context"),
        ({"messages": [{"role": "user", "content": "x" * (CONTEXT + 1000)}], "stream": True}, 400, "context"),
        ({"tools": [TOOL_F], "grammar": 'root ::= "a"'}, 400, "with tools"),
        ({"tools": [TOOL_F], "logprobs": True, "stream": True}, 400, "tools + stream"),
        ({"top_logprobs": 2}, 400, "logprobs"),
        ({"json_schema": SIDE_SCHEMA, "grammar": 'root ::= "a"'}, 500, "both json_schema and grammar"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]},
            500,
            "input is not supported",
        ),
    ],
    ids=["too long", "too long, streamed", "grammar", "logprobs", "top_logprobs", "two constraints", "image"],
)
def test_invalid_request_is_an_http_error_before_the_response_begins(
    llamacpp: Engine, fields: dict[str, Any], status: int, message_part: str
):
    answer = post_chat(llamacpp, **fields)
    assert (answer.status_code, message_part in answer.json()["error"]["message"]) == (status, True), answer.text


def test_logprobs_without_top_logprobs_are_missing(llamacpp: Engine):
    assert "logprobs" not in chat_choice(llamacpp, logprobs=True, top_logprobs=0)
    assert chat_choice(llamacpp, logprobs=True, top_logprobs=1)["logprobs"]["content"]


def test_streamed_usage_is_the_last_chunk_on_request(llamacpp: Engine):
    assert stream_chunks(llamacpp, stream_options={"include_usage": True})[-1]["usage"]["completion_tokens"] == 16
    assert not any("usage" in frame for frame in stream_chunks(llamacpp))


def test_disconnecting_stops_generation(llamacpp: Engine):
    with open_stream(llamacpp, messages=HI, max_tokens=CONTEXT - 500, ignore_eos=True) as answer:
        next(answer.iter_raw())
    assert becomes_idle(llamacpp, within_cpu_s=3)


def test_abandoned_unstreamed_request_goes_on_while_another_is_generated(llamacpp: Engine):
    """It checks for disconnects only after a second without any output, so the adapter always requests streams."""
    long: dict[str, Any] = {"messages": HI, "max_tokens": CONTEXT - 500, "ignore_eos": True}
    with open_stream(llamacpp, **long) as answer:
        pieces = answer.iter_raw()  # must stay referenced, or the connection closes
        next(pieces)
        with pytest.raises(httpx2.ReadTimeout):
            post_chat(llamacpp, timeout_s=0.6, **long)
        assert not reaches_processing(llamacpp, 1, within_cpu_s=0.8)
        next(pieces)
    assert becomes_idle(llamacpp, within_cpu_s=30)


def test_usage_counts_only_one_of_several_choices(llamacpp: Engine):
    unstreamed = post_chat(llamacpp, n=2, ignore_eos=True).json()
    assert (len(unstreamed["choices"]), unstreamed["usage"]["completion_tokens"]) == (2, 16)
    token_counts = [
        frame["usage"]["completion_tokens"]
        for frame in stream_chunks(llamacpp, n=2, stream_options={"include_usage": True})
        if "usage" in frame
    ]
    assert token_counts == [16, 16]


@pytest.mark.parametrize("schema", [True, False])
def test_boolean_schema_constrains_nothing(llamacpp: Engine, schema: bool):
    assert not chat_choice(llamacpp, json_schema=schema, seed=1)["message"]["content"].startswith("{")
    assert chat_choice(llamacpp, json_schema={}, seed=1)["message"]["content"].startswith("{")


def test_detokenizing_an_unknown_token_is_a_500(llamacpp: Engine):
    answer = httpx2.post(f"{llamacpp.base_url}/detokenize", json={"tokens": [999_999]})
    assert (answer.status_code, "_M_range_check" in answer.text) == (500, True)


@pytest.mark.parametrize("field", ["prompt", "messages", "input"])
def test_tokenize_of_an_unknown_field_returns_no_tokens(llamacpp: Engine, field: str):
    answer = httpx2.post(f"{llamacpp.base_url}/tokenize", json={field: "hi"})
    assert (answer.status_code, answer.json()) == (200, {"tokens": []})
