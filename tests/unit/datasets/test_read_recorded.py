"""Recorded inferences as examples: the same chat, whichever API its caller used."""

import asyncio
import json
from typing import Any

import pytest

from app.datasets.example import Example
from app.datasets.read_recorded import Recorded, parse_recorded, read_example, render_request
from app.datasets.reasons import Skipped
from app.domain.functions import FunctionConfig, VariantConfig
from app.gateway.functions.function_table import compile_function
from app.gateway.large_body.large_requests import LargeRequests
from app.settings import Settings
from providers.transport.loop_turns import LoopTurns

WEATHER: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS = '{"city":"Paris"}'

CHAT: Any = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "temperature": 0.2,
}
RESPONSES: Any = {"model": "m", "instructions": "Be brief.", "input": "Hi", "store": False}
MESSAGES: Any = {"model": "m", "max_tokens": 10, "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}
INFERENCE: Any = {"model_name": "m", "input": {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}}

CHAT_ANSWER: Any = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
}
NONE: list[Any] = []
RESPONSES_ANSWER: Any = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": NONE}],
        }
    ],
}
MESSAGES_ANSWER: Any = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
INFERENCE_ANSWER: Any = {
    "inference_id": "1",
    "episode_id": "2",
    "variant_name": "m",
    "content": [{"type": "text", "text": "Hello."}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "finish_reason": "stop",
}


def recorded(route: str, request: Any, response: Any, **fields: Any) -> Recorded:
    packed = None if response is None else response if isinstance(response, bytes) else json.dumps(response).encode()
    made: dict[str, Any] = {"streamed": False, **fields}
    return Recorded(route, request=json.dumps(request).encode(), response=packed, **made)


def read(each: Recorded) -> Example:
    large_requests = LargeRequests(Settings(), LoopTurns()).of_team("team")
    return read_example(each, asyncio.run(render_request(each, parse_recorded(each), large_requests)))


@pytest.mark.parametrize(
    ("route", "request_body", "response"),
    [
        ("openai_chat", CHAT, CHAT_ANSWER),
        ("openai_responses", RESPONSES, RESPONSES_ANSWER),
        ("anthropic_messages", MESSAGES, MESSAGES_ANSWER),
        ("tensorzero_inference", INFERENCE, INFERENCE_ANSWER),
    ],
    ids=["chat", "responses", "messages", "inference"],
)
def test_a_chat_is_the_same_example_whichever_api_its_caller_used(route: str, request_body: Any, response: Any):
    example = read(recorded(route, request_body, response))
    messages = example.request.pop("messages")
    assert [(each["role"].replace("developer", "system"), each["content"]) for each in messages] == [
        ("system", "Be brief."),
        ("user", "Hi"),
    ]
    assert example.request == {}, "parameters are no part of an example"
    assert example.response is not None and (example.response["role"], example.response["content"]) == ("assistant", "Hello.")


def test_a_stream_is_read_as_a_whole():
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo."}, "finish_reason": "stop"}]},
    ]
    frames = b"".join(b"data: %b\n\n" % json.dumps({"id": "1", "model": "m", **each}).encode() for each in chunks)
    example = read(recorded("openai_chat", CHAT, frames + b"data: [DONE]\n\n", streamed=True))
    assert example.response is not None and example.response["content"] == "Hello."
    with pytest.raises(Skipped) as caught:
        read(recorded("openai_chat", CHAT, frames[: len(frames) // 2], streamed=True))
    assert caught.value.reason == "no_response"


def test_tools_calls_and_results_keep_their_ids():
    request: Any = {
        "model": "m",
        "max_tokens": 10,
        "tools": [{"name": "weather", "description": "Of a city.", "input_schema": WEATHER}],
        "messages": [
            {"role": "user", "content": "Paris?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]},
        ],
    }
    example = read(recorded("anthropic_messages", request, MESSAGES_ANSWER))
    assert example.request["tools"][0]["function"] == {"name": "weather", "description": "Of a city.", "parameters": WEATHER}
    call = {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    assert [each["role"] for each in example.request["messages"]] == ["user", "assistant", "tool"]
    assert example.request["messages"][1]["tool_calls"] == [call]
    assert example.request["messages"][2]["tool_call_id"] == "toolu_1"


def test_a_prefill_is_a_part_of_the_response():
    request: Any = {**MESSAGES, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Oh: "}]}
    example = read(recorded("anthropic_messages", request, MESSAGES_ANSWER))
    assert [each["role"] for each in example.request["messages"]] == ["system", "user"]
    assert example.response is not None and example.response["content"] == "Oh: Hello."


def test_a_variants_templates_are_rendered_as_they_were():
    config = FunctionConfig(variants={"terse": VariantConfig(model="m", system_template="Answer {{ name }} briefly.")})
    function = compile_function("f", config)
    request: Any = {"model": "f", "messages": [{"role": "user", "content": "Hi"}], "narthex::input": {"system": {"name": "Ada"}}}
    example = read(recorded("openai_chat", request, CHAT_ANSWER, function=function, variant="terse"))
    assert example.request["messages"][0] == {"role": "system", "content": "Answer Ada briefly."}
    without_input: Any = {**request, "narthex::input": {"system": dict[str, Any]()}}
    for variant, body in (("gone", request), ("terse", without_input)):
        with pytest.raises(Skipped) as caught:
            read(recorded("openai_chat", body, CHAT_ANSWER, function=function, variant=variant))
        assert caught.value.reason == "template"


@pytest.mark.parametrize(
    ("demonstration", "expected"),
    [
        ("Better.", {"content": "Better."}),
        ({"answer": 42}, {"content": '{"answer":42}'}),
        ([1, 2], {"content": "[1,2]"}),
        ({"role": "assistant", "content": "Better."}, {"content": "Better."}),
        ([{"type": "text", "text": "Better."}], {"content": "Better."}),
        (
            [{"type": "tool_call", "id": "c", "name": "weather", "arguments": {"city": "Paris"}}],
            {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}]},
        ),
    ],
    ids=["text", "object", "list", "message", "blocks", "call"],
)
def test_demonstration_becomes_a_message_of_the_assistant(demonstration: Any, expected: dict[str, Any]):
    example = read(recorded("openai_chat", CHAT, None, demonstration=demonstration))
    assert example.response is None
    assert example.demonstration == {"role": "assistant", **expected}


@pytest.mark.parametrize("demonstration", [{"role": "user", "content": "no"}, [{"type": "sound"}], {"role": "assistant"}], ids=repr)
def test_demonstration_that_is_no_message_is_skipped(demonstration: Any):
    with pytest.raises(Skipped) as caught:
        read(recorded("openai_chat", CHAT, CHAT_ANSWER, demonstration=demonstration))
    assert caught.value.reason == "demonstration"


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (recorded("openai_embeddings", {"model": "m", "input": "x"}, {}), "not_a_chat"),
        (recorded("vllm_generate", {"model": "m", "token_ids": [1]}, {}), "not_a_chat"),
        (recorded("openai_chat", CHAT, None), "no_response"),
        (recorded("openai_chat", CHAT, {"error": {"message": "broken"}}), "no_response"),
        (recorded("openai_chat", CHAT, b"\xff"), "no_response"),
        (recorded("openai_chat", {"model": "m", "messages": 5}, CHAT_ANSWER), "unreadable"),
        (
            recorded("openai_chat", CHAT, {**CHAT_ANSWER, "choices": [{**CHAT_ANSWER["choices"][0], "finish_reason": "length"}]}),
            "cut_off",
        ),
        (
            recorded("anthropic_messages", {**MESSAGES, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, MESSAGES_ANSWER),
            "inexpressible",
        ),
    ],
    ids=["embeddings", "token ids", "no response", "error", "garbage", "bad request", "cut off", "tool of a host"],
)
def test_what_cannot_be_an_example_is_skipped_with_the_reason(each: Recorded, reason: str):
    with pytest.raises(Skipped) as caught:
        read(each)
    assert caught.value.reason == reason
