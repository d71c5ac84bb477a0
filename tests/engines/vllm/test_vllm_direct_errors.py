"""Facts on which the vLLM adapter relies, checked at a real vLLM: what it refuses, with which errors, and what it accepts."""

from typing import Any

import httpx2
import pytest

from tests.engines.direct_requests import chat_choice, post_chat, stream_chunks
from tests.engines.vllm.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines


def test_unknown_model_is_a_404_with_a_numeric_error_code(vllm: Engine):
    answer = post_chat(vllm, model="nobody")
    assert answer.status_code == 404
    assert answer.json() == {
        "error": {
            "message": f"The model `nobody` does not exist. Valid aliases: {vllm.model}.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }


def test_unknown_route_and_wrong_method_answer_with_detail(vllm: Engine):
    assert httpx2.get(f"{vllm.base_url}/v1/nothing").json() == {"detail": "Not Found"}
    assert httpx2.get(f"{vllm.base_url}/v1/chat/completions").json() == {"detail": "Method Not Allowed"}


INVALID_REQUESTS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a context too long": ({"messages": [{"role": "user", "content": "x" * 2 * CONTEXT}]}, "input_tokens"),
    "more tokens than fit": ({"max_tokens": CONTEXT + 1}, "max_tokens"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "stream_options without stream": ({"stream_options": {"include_usage": True}}, "stream_options"),
    "top_logprobs without logprobs": ({"top_logprobs": 1}, "top_logprobs"),
    "a temperature above 2": ({"temperature": 3}, "temperature"),
    "a wrong type": ({"temperature": "warm"}, "body.temperature"),
    "five stop strings": ({"stop": list("abcde")}, "body.stop"),
    "no messages": ({"messages": None}, None),
    "an empty conversation": ({"messages": []}, None),
    "a chat template": ({"chat_template": "{{ messages }}"}, None),
    "processor arguments": ({"mm_processor_kwargs": {"a": 1}}, "mm_processor_kwargs"),
    "a file": ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:,x"}}]}]}, "type"),
    "an image for a text model": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]},
        None,
    ),
}


@pytest.mark.parametrize(("fields", "param"), INVALID_REQUESTS.values(), ids=INVALID_REQUESTS)
def test_invalid_request_is_a_400_naming_its_param(vllm: Engine, fields: dict[str, Any], param: str | None):
    answer = post_chat(vllm, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, 400, param)
    assert error["type"] in ("BadRequestError", "Bad Request")


def test_validation_errors_of_a_streamed_request_are_an_http_status(vllm: Engine):
    assert post_chat(vllm, stream=True, temperature=3).status_code == 400
    assert post_chat(vllm, stream=True, model="nobody").status_code == 404


def test_sampler_errors_of_a_streamed_request_are_an_error_frame(vllm: Engine):
    invalid: list[dict[str, Any]] = [{"logprobs": True, "top_logprobs": 99}, {"logit_bias": {"99999": 1}}]
    for fields in invalid:
        assert post_chat(vllm, **fields).status_code == 400
        [frame] = stream_chunks(vllm, **fields)
        assert frame["error"]["code"] == 400


def test_unknown_fields_and_hints_are_ignored(vllm: Engine):
    hints = {"nonsense": 1, "user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "k"}
    assert chat_choice(vllm, **hints)["message"] == chat_choice(vllm)["message"]


def test_null_fields_are_ignored(vllm: Engine):
    null_fields = dict.fromkeys(
        ("response_format", "structured_outputs", "tools", "tool_choice", "stop", "user", "stream_options", "logprobs")
    )
    assert chat_choice(vllm, **null_fields)["message"] == chat_choice(vllm)["message"]


def test_history_with_reasoning_and_tool_calls_is_accepted(vllm: Engine):
    call = {"id": "a", "type": "function", "function": {"name": "book", "arguments": "not json"}}
    history: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    assert chat_choice(vllm, messages=history)["finish_reason"] == "length"
