"""Facts on which the llama-cpp-python adapter relies, checked at a real server."""

from typing import Any

import httpx2
import pytest

from tests.engines.direct_requests import chat_choice, open_stream, post_chat, stream_chunks
from tests.engines.environments import LLAMACPP_PYTHON
from tests.engines.running_small_engines import CONTEXT, becomes_idle, cpu_time_s, running_llamacpp_python
from tests.engines.small.constraint_callers import HI
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

SIDE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"side": {"enum": ["a", "b"]}},
    "required": ["side"],
    "additionalProperties": False,
}
TOOL_F, TOOL_G = ({"type": "function", "function": {"name": name, "parameters": SIDE_SCHEMA}} for name in "fg")
TOO_LONG: list[Any] = [{"role": "user", "content": "x" * (CONTEXT + 1000)}]


def test_too_long_prompt_is_a_400_unstreamed_and_an_empty_200_streamed(llamacpp_python: Engine):
    unstreamed, streamed = (post_chat(llamacpp_python, messages=TOO_LONG, stream=stream) for stream in (False, True))
    assert (unstreamed.status_code, unstreamed.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert (streamed.status_code, streamed.content) == (200, b"")


def test_json_schema_is_a_500_unless_given_as_json_object(llamacpp_python: Engine):
    assert post_chat(llamacpp_python, response_format={"type": "json_schema", "json_schema": {"schema": SIDE_SCHEMA}}).status_code == 500
    choice = chat_choice(llamacpp_python, max_tokens=400, response_format={"type": "json_object", "schema": SIDE_SCHEMA})
    assert '"side"' in choice["message"]["content"]


def test_max_completion_tokens_is_ignored(llamacpp_python: Engine):
    with open_stream(llamacpp_python, max_tokens=None, max_completion_tokens=1) as answer:
        assert sum(block.count(b"data:") for block, _ in zip(answer.iter_raw(), range(12), strict=False)) > 6


def test_only_a_named_tool_choice_makes_a_call(llamacpp_python: Engine):
    named = chat_choice(
        llamacpp_python, tools=[TOOL_F, TOOL_G], tool_choice={"type": "function", "function": {"name": "g"}}, max_tokens=300
    )
    assert [call["function"]["name"] for call in named["message"]["tool_calls"]] == ["g"]
    assert "tool_calls" not in chat_choice(llamacpp_python, tools=[TOOL_F], tool_choice="required")["message"]


def test_streams_have_no_usage(llamacpp_python: Engine):
    assert not any("usage" in frame for frame in stream_chunks(llamacpp_python, stream_options={"include_usage": True}))


def test_disconnecting_stops_a_stream_but_not_an_unstreamed_request(llamacpp_python: Engine):
    long_running: dict[str, Any] = {"messages": HI, "max_tokens": CONTEXT - 500, "logit_bias": {"2": -100}}
    with open_stream(llamacpp_python, **long_running) as answer:
        next(answer.iter_raw())
    assert becomes_idle(llamacpp_python, within_cpu_s=3)
    with pytest.raises(httpx2.ReadTimeout):
        post_chat(llamacpp_python, timeout_s=0.5, **{**long_running, "max_tokens": 1500})
    before = cpu_time_s(llamacpp_python)
    assert not becomes_idle(llamacpp_python, within_cpu_s=0.5)
    assert cpu_time_s(llamacpp_python) > before
    assert becomes_idle(llamacpp_python, within_cpu_s=60)


@pytest.mark.parametrize("prompt", [["a", "b"], [5, 6]], ids=["several", "tokens"])
def test_prompt_other_than_one_text_is_a_500(llamacpp_python: Engine, prompt: Any):
    assert httpx2.post(f"{llamacpp_python.base_url}/v1/completions", json={"prompt": prompt, "max_tokens": 1}).status_code == 500


def test_detokenizing_an_unknown_token_kills_the_server():
    if not LLAMACPP_PYTHON.is_installed():
        pytest.skip("llama-cpp-python is not installed.")
    with running_llamacpp_python() as engine:
        assert httpx2.post(f"{engine.base_url}/extras/detokenize", json={"tokens": [5]}).status_code == 200
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{engine.base_url}/extras/detokenize", json={"tokens": [999_999]})
        with pytest.raises(httpx2.TransportError):
            post_chat(engine)
