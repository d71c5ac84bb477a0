"""What our vLLM adapter relies on, seen on a real vLLM: what it refuses, in what words, and what it lets pass."""

from typing import Any

import httpx
import pytest

from tests.engines.asking import ask, frames, told
from tests.engines.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines


def test_an_unknown_model_is_a_404_in_an_envelope_with_a_number_for_a_code(vllm: Engine):
    answer = ask(vllm, model="nobody")
    assert answer.status_code == 404
    assert answer.json() == {
        "error": {
            "message": f"The model `nobody` does not exist. Valid aliases: {vllm.model}.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }


def test_an_unknown_route_and_a_wrong_method_have_another_envelope(vllm: Engine):
    assert httpx.get(f"{vllm.base_url}/v1/nothing").json() == {"detail": "Not Found"}
    assert httpx.get(f"{vllm.base_url}/v1/chat/completions").json() == {"detail": "Method Not Allowed"}


REFUSED: dict[str, tuple[dict[str, Any], str | None]] = {
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
    "a template of the caller's": ({"chat_template": "{{ messages }}"}, None),
    "processor arguments": ({"mm_processor_kwargs": {"a": 1}}, "mm_processor_kwargs"),
    "a file": ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:,x"}}]}]}, "type"),
    "an image for a model of text": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]},
        None,
    ),
}


@pytest.mark.parametrize(("fields", "param"), REFUSED.values(), ids=REFUSED)
def test_it_refuses(vllm: Engine, fields: dict[str, Any], param: str | None):
    answer = ask(vllm, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, 400, param)
    assert error["type"] in ("BadRequestError", "Bad Request")


def test_most_refusals_are_a_status_in_a_stream_too(vllm: Engine):
    assert ask(vllm, stream=True, temperature=3).status_code == 400
    assert ask(vllm, stream=True, model="nobody").status_code == 404


def test_what_the_sampler_refuses_is_a_frame_in_a_stream(vllm: Engine):
    unfit: list[dict[str, Any]] = [{"logprobs": True, "top_logprobs": 99}, {"logit_bias": {"99999": 1}}]
    for fields in unfit:
        assert ask(vllm, **fields).status_code == 400
        [frame] = frames(vllm, **fields)
        assert frame["error"]["code"] == 400


def test_fields_it_does_not_know_and_hints_are_let_pass(vllm: Engine):
    hints = {"nonsense": 1, "user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "k"}
    assert told(vllm, **hints)["message"] == told(vllm)["message"]


def test_null_means_not_said(vllm: Engine):
    unsaid = dict.fromkeys(("response_format", "structured_outputs", "tools", "tool_choice", "stop", "user", "stream_options", "logprobs"))
    assert told(vllm, **unsaid)["message"] == told(vllm)["message"]


def test_a_history_with_reasoning_and_calls_is_read(vllm: Engine):
    call = {"id": "a", "type": "function", "function": {"name": "book", "arguments": "not json"}}
    history: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    assert told(vllm, messages=history)["finish_reason"] == "length"
