"""What the adapter of llama-cpp-python's server stands on, asked of the server itself."""

from typing import Any

import httpx
import pytest

from tests.engines.asking import ask, frames, streaming, told
from tests.engines.installing import LLAMACPP_PYTHON
from tests.engines.running_small import CONTEXT, busy_s, comes_to_rest, running_llamacpp_python
from tests.engines.running_vllm import Engine
from tests.engines.small.said import HI

pytestmark = pytest.mark.engines

SIDE: dict[str, Any] = {"type": "object", "properties": {"side": {"enum": ["a", "b"]}}, "required": ["side"], "additionalProperties": False}
F, G = ({"type": "function", "function": {"name": name, "parameters": SIDE}} for name in "fg")
LONG: list[Any] = [{"role": "user", "content": "x" * (CONTEXT + 1000)}]


def test_a_prompt_too_long_is_a_400_whole_and_an_empty_200_streamed(llamacpp_python: Engine):
    whole, streamed = (ask(llamacpp_python, messages=LONG, stream=stream) for stream in (False, True))
    assert (whole.status_code, whole.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert (streamed.status_code, streamed.content) == (200, b"")


def test_a_json_schema_is_a_500_unless_it_stands_in_json_object(llamacpp_python: Engine):
    assert ask(llamacpp_python, response_format={"type": "json_schema", "json_schema": {"schema": SIDE}}).status_code == 500
    said = told(llamacpp_python, max_tokens=400, response_format={"type": "json_object", "schema": SIDE})
    assert '"side"' in said["message"]["content"]


def test_it_does_not_hear_max_completion_tokens(llamacpp_python: Engine):
    with streaming(llamacpp_python, max_tokens=None, max_completion_tokens=1) as answer:
        assert sum(block.count(b"data:") for block, _ in zip(answer.iter_raw(), range(12), strict=False)) > 6


def test_a_named_tool_is_called_and_nothing_else_is(llamacpp_python: Engine):
    named = told(llamacpp_python, tools=[F, G], tool_choice={"type": "function", "function": {"name": "g"}}, max_tokens=300)
    assert [call["function"]["name"] for call in named["message"]["tool_calls"]] == ["g"]
    assert "tool_calls" not in told(llamacpp_python, tools=[F], tool_choice="required")["message"]


def test_its_streams_tell_no_usage(llamacpp_python: Engine):
    assert not any("usage" in frame for frame in frames(llamacpp_python, stream_options={"include_usage": True}))


def test_closing_the_connection_stops_a_stream_and_no_whole_answer(llamacpp_python: Engine):
    long: dict[str, Any] = {"messages": HI, "max_tokens": CONTEXT - 500, "logit_bias": {"2": -100}}
    with streaming(llamacpp_python, **long) as answer:
        next(answer.iter_raw())
    assert comes_to_rest(llamacpp_python, within_s=3)
    with pytest.raises(httpx.ReadTimeout):
        ask(llamacpp_python, patience_s=0.5, **{**long, "max_tokens": 1500})
    before = busy_s(llamacpp_python)
    assert not comes_to_rest(llamacpp_python, within_s=1)
    assert busy_s(llamacpp_python) > before
    assert comes_to_rest(llamacpp_python, within_s=60)


@pytest.mark.parametrize("prompt", [["a", "b"], [5, 6]], ids=["several", "tokens"])
def test_a_prompt_that_is_not_one_text_is_a_500(llamacpp_python: Engine, prompt: Any):
    assert httpx.post(f"{llamacpp_python.base_url}/v1/completions", json={"prompt": prompt, "max_tokens": 1}).status_code == 500


def test_a_token_that_it_does_not_have_ends_it():
    if not LLAMACPP_PYTHON.is_installed():
        pytest.skip("llama-cpp-python is not here.")
    with running_llamacpp_python() as engine:
        assert httpx.post(f"{engine.base_url}/extras/detokenize", json={"tokens": [5]}).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{engine.base_url}/extras/detokenize", json={"tokens": [999_999]})
        with pytest.raises(httpx.TransportError):
            ask(engine)
