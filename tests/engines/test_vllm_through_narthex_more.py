"""The APIs of a real vLLM beside chat, as callers see them through the gateway: the official SDKs, whole and streamed.

Its model babbles, so what is looked at is what the APIs promise of any answer: that a stream says what the whole says, ids, counts, ends.
"""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import anthropic
import httpx
import openai
import pytest

from tests.engines.install import VENV
from tests.engines.running_narthex import MODEL, Gateway, running_narthex, serving
from tests.engines.running_vllm import Engine, running_vllm

pytestmark = pytest.mark.engines

HI: Any = [{"role": "user", "content": "hi"}]
# Greedy: the whole answer and the stream of it are one answer.
SAME = {"temperature": 0}
ENDLESS = {**SAME, "ignore_eos": True}


@pytest.fixture(scope="module")
def caller(narthex: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=narthex.base_url, api_key=narthex.key, max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def anthropics(narthex: Gateway) -> Iterator[anthropic.Anthropic]:
    root = narthex.base_url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=root, api_key=narthex.key, max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def raw(narthex: Gateway) -> Iterator[httpx.Client]:
    root, headers = narthex.base_url.removesuffix("/v1"), {"authorization": f"Bearer {narthex.key}"}
    with httpx.Client(base_url=root, headers=headers, timeout=120) as client:
        yield client


def is_id(text: str, prefix: str) -> bool:
    return text.startswith(prefix) and UUID(text.removeprefix(prefix)).version == 7


def test_a_completion_streams_what_it_says_whole(caller: openai.OpenAI):
    whole = caller.completions.create(model=MODEL, prompt="Once", max_tokens=12, extra_body=ENDLESS)
    assert is_id(whole.id, "cmpl-")
    assert (whole.model, whole.choices[0].finish_reason) == (MODEL, "length")
    assert whole.usage
    assert whole.usage.completion_tokens == 12
    telling = {**ENDLESS, "stream_options": {"include_usage": True}}
    chunks = list(caller.completions.create(model=MODEL, prompt="Once", max_tokens=12, stream=True, extra_body=telling))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text
    assert len({chunk.id for chunk in chunks}) == 1
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [12]


def test_a_completion_answers_each_of_several_prompts_and_token_ids_too(caller: openai.OpenAI):
    several = caller.completions.create(model=MODEL, prompt=["One", "Two"], max_tokens=6, extra_body=ENDLESS)
    assert [choice.index for choice in several.choices] == [0, 1]
    one = caller.completions.create(model=MODEL, prompt="Two", max_tokens=6, extra_body=ENDLESS)
    assert one.choices[0].text == several.choices[1].text
    ids = caller.completions.create(model=MODEL, prompt=[40, 41, 42], max_tokens=6, extra_body=ENDLESS)
    assert ids.usage
    assert (ids.usage.prompt_tokens, ids.usage.completion_tokens) == (3, 6)


def test_a_response_streams_what_it_says_whole(caller: openai.OpenAI):
    asked: dict[str, Any] = {"model": MODEL, "input": "hi", "max_output_tokens": 16, "temperature": 0}
    create: Any = caller.responses.create
    whole = create(**asked)
    assert is_id(whole.id, "resp_")
    assert (whole.model, whole.object) == (MODEL, "response")
    assert whole.usage
    assert whole.usage.output_tokens
    with caller.responses.stream(**asked) as stream:
        events: list[Any] = list(stream)
    last = events[-1].response
    # vLLM ends a cut answer's stream with response.completed, in which the status is incomplete; its whole answer is right (seen on 0.32).
    assert (events[0].type, events[-1].type) == ("response.created", f"response.{whole.status}")
    assert (last.status, last.output_text) == (whole.status, whole.output_text)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert is_id(last.id, "resp_")


def test_a_message_streams_what_it_says_whole(anthropics: anthropic.Anthropic):
    asked: dict[str, Any] = {"model": MODEL, "messages": HI, "max_tokens": 16, "extra_body": SAME}
    create: Any = anthropics.messages.create
    whole = create(**asked)
    assert is_id(whole.id, "msg_")
    assert (whole.model, whole.role, whole.type) == (MODEL, "assistant", "message")
    assert whole.usage.output_tokens
    with anthropics.messages.stream(**asked) as stream:
        events = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert (events[0], events[-1]) == ("message_start", "message_stop")
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in whole.content]
    assert streamed.stop_reason == whole.stop_reason
    assert is_id(streamed.id, "msg_")


def test_tokens_are_counted_as_the_message_is_charged(anthropics: anthropic.Anthropic):
    counted = anthropics.messages.count_tokens(model=MODEL, messages=HI)
    whole = anthropics.messages.create(model=MODEL, messages=HI, max_tokens=1)
    assert counted.input_tokens == whole.usage.input_tokens > 2


def test_token_ids_stream_as_they_come_whole(raw: httpx.Client):
    asked = {"model": MODEL, "token_ids": [40, 41, 42], "sampling_params": {"max_tokens": 12, "temperature": 0, "ignore_eos": True}}
    answer = raw.post("/inference/v1/generate", json={**asked, "request_id": "mine"})
    assert answer.status_code == 200, answer.text
    whole = answer.json()
    assert UUID(whole["request_id"]).version == 7
    assert whole["request_id"] == answer.headers["x-narthex-inference-id"]
    [choice] = whole["choices"]
    assert (len(choice["token_ids"]), choice["finish_reason"], whole["model"]) == (12, "length", MODEL)
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (3, 12)
    streamed = raw.post("/inference/v1/generate", json={**asked, "stream": True, "stream_options": {"include_usage": True}})
    *data, done = [line.removeprefix("data: ") for line in streamed.text.split("\n\n") if line]
    chunks = [json.loads(each) for each in data]
    assert done == "[DONE]"
    assert [id for chunk in chunks for each in chunk["choices"] for id in each["token_ids"]] == choice["token_ids"]
    assert {chunk["request_id"] for chunk in chunks} == {streamed.headers["x-narthex-inference-id"]}
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk["usage"]] == [12]
    silent = raw.post("/inference/v1/generate", json={**asked, "stream": True})
    assert '"completion_tokens"' not in silent.text


def test_token_ids_that_the_engine_does_not_have_are_a_400(raw: httpx.Client):
    refused = raw.post("/inference/v1/generate", json={"model": MODEL, "token_ids": [10**6], "sampling_params": {}})
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["message"]


@pytest.fixture(scope="module")
def embedder() -> Iterator[Engine]:
    with running_vllm(VENV, "pooling") as engine:
        yield engine


@pytest.fixture(scope="module")
def embeds(narthex: Gateway, embedder: Engine) -> Iterator[openai.OpenAI]:
    """A gateway of its own before the engine that embeds; `narthex` is asked for so that the other one was found able to start."""
    with (
        running_narthex(serving("vllm", embedder)) as gateway,
        openai.OpenAI(base_url=gateway.base_url, api_key=gateway.key, max_retries=0, timeout=120) as client,
    ):
        yield client


def test_embeddings_come_alike_in_both_encodings(embeds: openai.OpenAI):
    by_default = embeds.embeddings.create(model=MODEL, input=["one text", "another"])
    as_floats = embeds.embeddings.create(model=MODEL, input=["one text", "another"], encoding_format="float")
    assert [each.index for each in by_default.data] == [0, 1]
    assert (by_default.model, by_default.object) == (MODEL, "list")
    assert by_default.usage.prompt_tokens == len("one text" + "another")
    for packed, said in zip(by_default.data, as_floats.data, strict=True):
        assert len(said.embedding) == 128
        assert packed.embedding == pytest.approx(said.embedding, abs=1e-6)


def test_embeddings_of_token_ids_are_counted_exactly(embeds: openai.OpenAI):
    assert embeds.embeddings.create(model=MODEL, input=[40, 41, 42]).usage.prompt_tokens == 3
    several = embeds.embeddings.create(model=MODEL, input=[[40, 41], [42]])
    assert (len(several.data), several.usage.prompt_tokens) == (2, 3)


def test_dimensions_that_a_model_cannot_give_are_a_400(embeds: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="atryoshka"):
        embeds.embeddings.create(model=MODEL, input="one text", dimensions=5)


def test_half_floats_pass_as_the_engine_packs_them(embeds: openai.OpenAI):
    said: dict[str, Any] = {"model": MODEL, "input": "one text", "encoding_format": "base64", "embed_dtype": "float16"}
    packed: Any = embeds.post("/embeddings", body=said, cast_to=object)
    assert len(packed["data"][0]["embedding"]) == 344  # 128 numbers of two bytes
