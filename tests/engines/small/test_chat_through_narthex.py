"""Plain chats with the small engines: whole and streamed alike, over several turns, for each caller; and hanging up stops them."""

import time
from typing import Any
from uuid import UUID

import anthropic
import openai
import pytest

from tests.engines.running_small import CONTEXT, busy_s, comes_to_rest
from tests.engines.running_vllm import Engine
from tests.engines.small.processing import comes_to_process, processing
from tests.engines.small.said import HI

pytestmark = pytest.mark.engines

EACH = pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python", "transformers"])
TURNS: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "now?"}]},
]
GREEDY: dict[str, Any] = {"max_tokens": 24, "temperature": 0}


@pytest.fixture(autouse=True)
def _engine(request: pytest.FixtureRequest, engine: str) -> None:  # pyright: ignore[reportUnusedFunction]
    request.getfixturevalue(engine)


@EACH
@pytest.mark.parametrize("messages", [HI, TURNS], ids=["one turn", "many"])
def test_a_stream_says_what_the_whole_answer_says(caller: openai.OpenAI, engine: str, messages: list[Any]):
    whole = caller.chat.completions.create(model=engine, messages=messages, extra_body=GREEDY)
    with caller.chat.completions.create(model=engine, messages=messages, stream=True, extra_body=GREEDY) as stream:
        chunks = list(stream)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    # Bytes that are no UTF-8 are told otherwise in a stream: what is left are the letters.
    assert text.replace("�", "") == (whole.choices[0].message.content or "").replace("�", "")
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert (whole.model, chunks[0].model) == (engine, engine)
    assert UUID(whole.id).version == UUID(chunks[0].id).version == 7


@EACH
def test_usage_is_told_where_the_engine_tells_it_and_never_made_up(caller: openai.OpenAI, engine: str):
    said = {**GREEDY, "stream_options": {"include_usage": True}}
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=said) as stream:
        told = [chunk.usage.completion_tokens for chunk in stream if chunk.usage]
    assert told == ([] if engine == "llamacpp_python" else [24])
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=GREEDY) as stream:
        assert not any(chunk.usage for chunk in stream)


@EACH
def test_a_response_streams_what_it_says_whole(caller: openai.OpenAI, engine: str):
    asked: dict[str, Any] = {"model": engine, "input": "hi", "max_output_tokens": 16, "temperature": 0}
    create: Any = caller.responses.create
    whole = create(**asked)
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    with caller.responses.stream(**asked) as stream:
        events: list[Any] = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text.replace("�", "") == whole.output_text.replace("�", "")


@EACH
def test_a_message_streams_what_it_says_whole(anthropics: anthropic.Anthropic, engine: str):
    asked: dict[str, Any] = {"model": engine, "messages": HI, "max_tokens": 16, "extra_body": {"temperature": 0}}
    create: Any = anthropics.messages.create
    whole = create(**asked)
    assert whole.stop_reason == "max_tokens"
    with anthropics.messages.stream(**asked) as stream:
        streamed: Any = stream.get_final_message()
    said, again = ("".join(block.text for block in each.content).replace("�", "") for each in (whole, streamed))
    assert (streamed.stop_reason, again) == ("max_tokens", said)


@EACH
def test_a_completion_streams_what_it_says_whole(caller: openai.OpenAI, engine: str):
    whole = caller.completions.create(model=engine, prompt="Once", max_tokens=12, temperature=0)
    with caller.completions.create(model=engine, prompt="Once", max_tokens=12, temperature=0, stream=True) as stream:
        text = "".join(choice.text for chunk in stream for choice in chunk.choices)
    assert text.replace("�", "") == whole.choices[0].text.replace("�", "")
    assert whole.choices[0].finish_reason == "length"


@EACH
def test_sampling_is_said_in_the_engines_own_words(caller: openai.OpenAI, engine: str):
    def said(**fields: Any) -> str | None:
        extra = {"max_tokens": 24, "seed": 1, "temperature": 1.5} | fields
        return caller.chat.completions.create(model=engine, messages=HI, extra_body=extra).choices[0].message.content

    assert said() == said()
    assert said() != said(seed=2)
    for field in ({"top_k": 1}, {"min_p": 0.9}, {"repetition_penalty": 1.9}, {"logit_bias": {"40": 100}}):
        assert said(**field) != said(), field


@EACH
def test_stop_ends_the_answer(caller: openai.OpenAI, engine: str):
    whole = caller.chat.completions.create(model=engine, messages=HI, extra_body={**GREEDY, "max_tokens": 60}).choices[0].message.content
    stop = next(letter for letter in (whole or "")[3:] if letter.isascii() and letter.isprintable() and letter.strip())
    cut = caller.chat.completions.create(model=engine, messages=HI, stop=[stop], extra_body={**GREEDY, "max_tokens": 60}).choices[0]
    assert cut.finish_reason == "stop"
    assert len(cut.message.content or "") < len(whole or "")


LONG = "x" * (CONTEXT + 1000)


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])
def test_a_context_too_long_is_a_400_for_every_caller(caller: openai.OpenAI, anthropics: anthropic.Anthropic, engine: str):
    """And the engine's words, which llama-cpp-python does not say in a stream."""
    create: Any = caller.responses.create
    said: list[Any] = [{"role": "user", "content": LONG}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="context"):
            caller.chat.completions.create(model=engine, messages=said, max_tokens=4, stream=stream)
        with pytest.raises(openai.BadRequestError, match="context"):
            caller.completions.create(model=engine, prompt=LONG, max_tokens=4, stream=stream)
        with pytest.raises(openai.BadRequestError, match="context"):
            create(model=engine, input=LONG, max_output_tokens=16, stream=stream)
        with pytest.raises(anthropic.BadRequestError, match="context"):
            anthropics.messages.create(model=engine, messages=said, max_tokens=4, stream=stream)
    assert caller.chat.completions.create(model=engine, messages=HI, max_tokens=4).choices


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])
@pytest.mark.parametrize("tops", [0, 2])
def test_logprobs_are_told_whole_and_streamed(caller: openai.OpenAI, engine: str, tops: int):
    create: Any = caller.chat.completions.create
    asked: dict[str, Any] = {"model": engine, "messages": HI, "logprobs": True, "top_logprobs": tops, "extra_body": GREEDY}
    whole: Any = create(**asked).choices[0].logprobs
    with create(**asked, stream=True) as chunks:
        choices: list[Any] = [choice for chunk in chunks for choice in chunk.choices]
    streamed = [token for choice in choices if choice.logprobs for token in choice.logprobs.content]
    assert [token.token for token in streamed] == [token.token for token in whole.content] and len(streamed) == GREEDY["max_tokens"]
    assert all(token.logprob <= 0 and len(token.top_logprobs) >= tops for token in (*streamed, *whole.content))


def for_ever(engine: str) -> dict[str, Any]:
    """More than is written in the seconds that a test waits; none ends by itself but by the model's chance."""
    end = {"logit_bias": {"2": -100}}
    return {"max_tokens": CONTEXT - 500, **end, **({"ignore_eos": True} if engine == "llamacpp" else {})}


@EACH
def test_a_caller_who_hangs_up_stops_the_engine(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    served = request.getfixturevalue(engine)
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=for_ever(engine)) as chunks:
        assert next(iter(chunks))
        before = busy_s(served)
        time.sleep(0.3)
        assert busy_s(served) > before
    assert comes_to_rest(served, within_s=3)


@EACH
def test_a_caller_who_stops_waiting_for_a_whole_answer_stops_the_engine(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    served = request.getfixturevalue(engine)
    with pytest.raises(openai.APITimeoutError):
        caller.with_options(timeout=0.7).chat.completions.create(model=engine, messages=HI, extra_body=for_ever(engine))
    assert comes_to_rest(served, within_s=3)


@pytest.mark.parametrize("engine", ["llamacpp"])
def test_a_whole_answer_that_nobody_waits_for_stops_while_another_is_written(llamacpp: Engine, caller: openai.OpenAI, engine: str):
    """tests/engines/small/test_llamacpp_direct.py shows that it would not, had it been asked for whole."""
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=for_ever(engine)) as chunks:
        assert next(iter(chunks))
        with pytest.raises(openai.APITimeoutError):
            caller.with_options(timeout=0.4).chat.completions.create(model=engine, messages=HI, extra_body=for_ever(engine))
        assert comes_to_process(llamacpp, 1, within_s=0.8)
        assert processing(llamacpp) == 1
    assert comes_to_rest(llamacpp, within_s=3)
