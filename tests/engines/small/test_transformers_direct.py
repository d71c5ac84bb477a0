"""What the adapter of `transformers serve` stands on, asked of the server itself."""

import json
from typing import Any

import httpx
import pytest

from tests.engines.asking import ask, streaming, told
from tests.engines.running_small import CONTEXT, comes_to_rest
from tests.engines.running_vllm import Engine
from tests.engines.small.said import HI

pytestmark = pytest.mark.engines

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("field", ["guided_json", "top_k", "a_word_of_nobody"])
def test_a_field_that_it_has_not_heard_of_is_a_422(transformers: Engine, field: str):
    answer = ask(transformers, **{field: 1})
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
def test_fields_of_openai_that_it_passes_over(transformers: Engine, field: dict[str, Any]):
    greedy = {"temperature": 0, "max_tokens": 24}
    assert told(transformers, **greedy, **field) == told(transformers, **greedy)


def test_temperature_does_nothing_without_do_sample(transformers: Engine):
    def said(**fields: Any) -> str:
        return told(transformers, max_tokens=24, temperature=1.9, **fields)["message"]["content"]

    sampling = json.dumps({"do_sample": True, "max_new_tokens": 24})
    assert said(seed=1) == said(seed=2)
    assert said(seed=1, generation_config=sampling) != said(seed=2, generation_config=sampling)


def test_its_streams_tell_usage_unasked_and_have_no_done(transformers: Engine):
    *_, last = [line.removeprefix("data: ") for line in ask(transformers, stream=True).text.split("\n\n") if line]
    chunk = json.loads(last)
    assert (chunk["choices"][0]["finish_reason"], chunk["usage"]["completion_tokens"]) == ("length", 16)


def test_a_prompt_longer_than_the_context_is_answered_all_the_same(transformers: Engine):
    answer = ask(transformers, messages=[{"role": "user", "content": "x" * (CONTEXT + 1000)}], max_tokens=2).json()
    assert answer["usage"]["prompt_tokens"] > CONTEXT


def test_closing_the_connection_stops_a_stream_and_no_whole_answer(transformers: Engine):
    long: dict[str, Any] = {"messages": HI, "max_tokens": 1500, "logit_bias": {"2": -100.0}}
    with streaming(transformers, **long) as answer:
        next(answer.iter_raw())
    assert comes_to_rest(transformers, within_s=3)
    with pytest.raises(httpx.ReadTimeout):
        ask(transformers, patience_s=0.5, **long)
    assert not comes_to_rest(transformers, within_s=1)
    assert comes_to_rest(transformers, within_s=60)
