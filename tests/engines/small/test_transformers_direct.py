"""Facts on which the adapter of `transformers serve` relies, checked at a real server."""

import json
from typing import Any

import httpx2
import pytest

from tests.engines.direct_requests import chat_choice, open_stream, post_chat
from tests.engines.running_small_engines import CONTEXT, becomes_idle, cpu_time_s
from tests.engines.small.constraint_callers import HI
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("field", ["guided_json", "top_k", "no_such_field"])
def test_unknown_field_is_a_422(transformers: Engine, field: str):
    answer = post_chat(transformers, **{field: 1})
    assert (answer.status_code, field in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    "field",
    [
        {"response_format": {"type": "json_object"}},
        {"logprobs": True, "top_logprobs": 2},
        {"n": 2},
        {"tools": [TOOL], "tool_choice": "required"},
        {"presence_penalty": 2},
    ],
    ids=lambda field: next(iter(field)),
)
def test_unsupported_openai_fields_are_ignored(transformers: Engine, field: dict[str, Any]):
    greedy = {"temperature": 0, "max_tokens": 24}
    assert chat_choice(transformers, **greedy, **field) == chat_choice(transformers, **greedy)


def test_temperature_has_no_effect_without_do_sample(transformers: Engine):
    def sampled_text(**fields: Any) -> str:
        return chat_choice(transformers, max_tokens=24, temperature=1.9, **fields)["message"]["content"]

    sampling = json.dumps({"do_sample": True, "max_new_tokens": 24})
    assert sampled_text(seed=1) == sampled_text(seed=2)
    assert sampled_text(seed=1, generation_config=sampling) != sampled_text(seed=2, generation_config=sampling)


def test_stream_ends_with_unrequested_usage_and_without_done(transformers: Engine):
    *_, last = [line.removeprefix("data: ") for line in post_chat(transformers, stream=True).text.split("\n\n") if line]
    chunk = json.loads(last)
    assert (chunk["choices"][0]["finish_reason"], chunk["usage"]["completion_tokens"]) == ("length", 16)


def test_prompt_longer_than_the_context_is_answered(transformers: Engine):
    answer = post_chat(transformers, messages=[{"role": "user", "content": "x" * (CONTEXT + 1000)}], max_tokens=2).json()
    assert answer["usage"]["prompt_tokens"] > CONTEXT


def test_disconnecting_stops_a_stream_but_not_an_unstreamed_request(transformers: Engine):
    long: dict[str, Any] = {"messages": HI, "max_tokens": 1500, "logit_bias": {"2": -100.0}}
    with open_stream(transformers, **long) as answer:
        next(answer.iter_raw())
    assert becomes_idle(transformers, within_cpu_s=3)
    before_s = cpu_time_s(transformers)
    post_chat(transformers, **long)
    whole_s = cpu_time_s(transformers) - before_s
    before_s = cpu_time_s(transformers)
    with pytest.raises(httpx2.ReadTimeout):
        post_chat(transformers, timeout_s=0.2, **long)
    assert becomes_idle(transformers, within_cpu_s=60)
    assert cpu_time_s(transformers) - before_s > whole_s / 2
