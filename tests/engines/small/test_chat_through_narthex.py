"""Plain chats with the small engines through the gateway: streamed and not, over several turns, in each API; disconnects stop them."""

import time
from typing import Any
from uuid import UUID

import anthropic
import openai
import pytest

from tests.engines.running_small_engines import CONTEXT, becomes_idle, cpu_time_s
from tests.engines.small.constraint_callers import HI
from tests.engines.small.llamacpp_metrics import reaches_processing, requests_processing
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

EACH_ENGINE = pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python", "transformers"])
CONVERSATION: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "now?"}]},
]
GREEDY: dict[str, Any] = {"max_tokens": 24, "temperature": 0}


@pytest.fixture(autouse=True)
def _require_engine(request: pytest.FixtureRequest, engine: str) -> None:  # pyright: ignore[reportUnusedFunction]
    request.getfixturevalue(engine)


@EACH_ENGINE
@pytest.mark.parametrize("messages", [HI, CONVERSATION], ids=["one turn", "many"])
def test_stream_has_the_text_and_finish_of_the_unstreamed_response(caller: openai.OpenAI, engine: str, messages: list[Any]):
    unstreamed = caller.chat.completions.create(model=engine, messages=messages, extra_body=GREEDY)
    with caller.chat.completions.create(model=engine, messages=messages, stream=True, extra_body=GREEDY) as stream:
        chunks = list(stream)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    # Invalid UTF-8 is replaced differently in a stream, so only the other characters are compared.
    assert text.replace("�", "") == (unstreamed.choices[0].message.content or "").replace("�", "")
    assert chunks[-1].choices[0].finish_reason == unstreamed.choices[0].finish_reason == "length"
    assert (unstreamed.model, chunks[0].model) == (engine, engine)
    assert UUID(unstreamed.id).version == UUID(chunks[0].id).version == 7


@EACH_ENGINE
def test_streamed_usage_comes_from_the_engine_and_only_on_request(caller: openai.OpenAI, engine: str):
    with_usage = {**GREEDY, "stream_options": {"include_usage": True}}
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=with_usage) as stream:
        [usage] = [chunk.usage for chunk in stream if chunk.usage]
    if engine == "llamacpp_python":  # It reports none, and what a random model writes has any number of bytes to a token.
        assert usage.completion_tokens > 0 and (usage.model_extra or {})["estimated"] is True
    else:
        assert usage.completion_tokens == 24
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=GREEDY) as stream:
        assert not any(chunk.usage for chunk in stream)


@EACH_ENGINE
def test_streamed_response_equals_the_unstreamed_one(caller: openai.OpenAI, engine: str):
    fields: dict[str, Any] = {"model": engine, "input": "hi", "max_output_tokens": 16, "temperature": 0}
    create: Any = caller.responses.create
    unstreamed = create(**fields)
    assert (unstreamed.status, unstreamed.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    with caller.responses.stream(**fields) as stream:
        events: list[Any] = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text.replace("�", "") == unstreamed.output_text.replace("�", "")


@EACH_ENGINE
def test_streamed_message_equals_the_unstreamed_one(anthropic_client: anthropic.Anthropic, engine: str):
    request: dict[str, Any] = {"model": engine, "messages": HI, "max_tokens": 16, "extra_body": {"temperature": 0}}
    create: Any = anthropic_client.messages.create
    unstreamed = create(**request)
    assert unstreamed.stop_reason == "max_tokens"
    with anthropic_client.messages.stream(**request) as stream:
        streamed: Any = stream.get_final_message()
    unstreamed_text, streamed_text = ("".join(block.text for block in each.content).replace("�", "") for each in (unstreamed, streamed))
    assert (streamed.stop_reason, streamed_text) == ("max_tokens", unstreamed_text)


@EACH_ENGINE
def test_streamed_completion_equals_the_unstreamed_one(caller: openai.OpenAI, engine: str):
    unstreamed = caller.completions.create(model=engine, prompt="Once", max_tokens=12, temperature=0)
    with caller.completions.create(model=engine, prompt="Once", max_tokens=12, temperature=0, stream=True) as stream:
        text = "".join(choice.text for chunk in stream for choice in chunk.choices)
    assert text.replace("�", "") == unstreamed.choices[0].text.replace("�", "")
    assert unstreamed.choices[0].finish_reason == "length"


@EACH_ENGINE
def test_sampling_fields_take_effect_on_every_engine(caller: openai.OpenAI, engine: str):
    def sampled_text(**fields: Any) -> str | None:
        extra = {"max_tokens": 24, "seed": 1, "temperature": 1.5} | fields
        return caller.chat.completions.create(model=engine, messages=HI, extra_body=extra).choices[0].message.content

    assert sampled_text() == sampled_text()
    assert sampled_text() != sampled_text(seed=2)
    for field in ({"top_k": 1}, {"min_p": 0.9}, {"repetition_penalty": 1.9}, {"logit_bias": {"40": 100}}):
        assert sampled_text(**field) != sampled_text(), field


@EACH_ENGINE
def test_stop_sequence_ends_the_response(caller: openai.OpenAI, engine: str):
    unstreamed = (
        caller.chat.completions.create(model=engine, messages=HI, extra_body={**GREEDY, "max_tokens": 60}).choices[0].message.content
    )
    stop = next(letter for letter in (unstreamed or "")[3:] if letter.isascii() and letter.isprintable() and letter.strip())
    cut = caller.chat.completions.create(model=engine, messages=HI, stop=[stop], extra_body={**GREEDY, "max_tokens": 60}).choices[0]
    assert cut.finish_reason == "stop"
    assert len(cut.message.content or "") < len(unstreamed or "")


TOO_LONG = "x" * (CONTEXT + 1000)


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])
def test_prompt_longer_than_the_context_is_a_400_in_every_api(caller: openai.OpenAI, anthropic_client: anthropic.Anthropic, engine: str):
    """The message is the engine's own, although llama-cpp-python by itself sends none in a stream."""
    create: Any = caller.responses.create
    messages: list[Any] = [{"role": "user", "content": TOO_LONG}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="context"):
            caller.chat.completions.create(model=engine, messages=messages, max_tokens=4, stream=stream)
        with pytest.raises(openai.BadRequestError, match="context"):
            caller.completions.create(model=engine, prompt=TOO_LONG, max_tokens=4, stream=stream)
        with pytest.raises(openai.BadRequestError, match="context"):
            create(model=engine, input=TOO_LONG, max_output_tokens=16, stream=stream)
        with pytest.raises(anthropic.BadRequestError, match="context"):
            anthropic_client.messages.create(model=engine, messages=messages, max_tokens=4, stream=stream)
    assert caller.chat.completions.create(model=engine, messages=HI, max_tokens=4).choices


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])
@pytest.mark.parametrize("tops", [0, 2])
def test_logprobs_are_returned_for_the_same_tokens_streamed_and_unstreamed(caller: openai.OpenAI, engine: str, tops: int):
    create: Any = caller.chat.completions.create
    fields: dict[str, Any] = {"model": engine, "messages": HI, "logprobs": True, "top_logprobs": tops, "extra_body": GREEDY}
    unstreamed: Any = create(**fields).choices[0].logprobs
    with create(**fields, stream=True) as chunks:
        choices: list[Any] = [choice for chunk in chunks for choice in chunk.choices]
    streamed = [token for choice in choices if choice.logprobs for token in choice.logprobs.content]
    assert [token.token for token in streamed] == [token.token for token in unstreamed.content] and len(streamed) == GREEDY["max_tokens"]
    assert all(token.logprob <= 0 and len(token.top_logprobs) >= tops for token in (*streamed, *unstreamed.content))


def long_running(engine: str) -> dict[str, Any]:
    """Fields of a request that takes longer than any wait in these tests, unless the model ends by chance."""
    no_end = {"logit_bias": {"2": -100}}
    return {"max_tokens": CONTEXT - 500, **no_end, **({"ignore_eos": True} if engine == "llamacpp" else {})}


@EACH_ENGINE
def test_client_disconnect_from_a_stream_stops_the_engine(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    served = request.getfixturevalue(engine)
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=long_running(engine)) as chunks:
        assert next(iter(chunks))
        before = cpu_time_s(served)
        deadline = time.monotonic() + 30
        while cpu_time_s(served) <= before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert cpu_time_s(served) > before
    assert becomes_idle(served, within_cpu_s=3)


@EACH_ENGINE
def test_client_timeout_on_an_unstreamed_request_stops_the_engine(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    served = request.getfixturevalue(engine)
    with pytest.raises(openai.APITimeoutError):
        caller.with_options(timeout=1).chat.completions.create(model=engine, messages=HI, extra_body=long_running(engine))
    assert becomes_idle(served, within_cpu_s=3)


@pytest.mark.parametrize("engine", ["llamacpp"])
def test_abandoned_unstreamed_request_stops_while_another_is_generated(llamacpp: Engine, caller: openai.OpenAI, engine: str):
    """The gateway requests a stream; test_llamacpp_direct.py shows that an unstreamed request would go on."""
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=long_running(engine)) as chunks:
        assert next(iter(chunks))
        with pytest.raises(openai.APITimeoutError):
            caller.with_options(timeout=0.6).chat.completions.create(model=engine, messages=HI, extra_body=long_running(engine))
        assert reaches_processing(llamacpp, 1, within_cpu_s=0.8)
        assert requests_processing(llamacpp) == 1
    assert becomes_idle(llamacpp, within_cpu_s=3)
