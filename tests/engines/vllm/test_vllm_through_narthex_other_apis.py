"""The other APIs of a real vLLM through the gateway, with the official SDKs, streamed and not.

The model is random, so the tests check what holds for any output: streams equal unstreamed responses, ids, usage, finish reasons.
"""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import anthropic
import httpx2
import openai
import pytest

from tests.engines.install import VENV
from tests.engines.running_narthex import MODEL, Gateway, engine_configuration, running_narthex
from tests.engines.tool_loops import TOOL_LOOPS
from tests.engines.vllm.running_vllm import Engine, running_vllm

pytestmark = pytest.mark.engines

HI: Any = [{"role": "user", "content": "hi"}]
# Greedy sampling: streamed and unstreamed responses are equal.
GREEDY = {"temperature": 0}
GREEDY_WITHOUT_EOS = {**GREEDY, "ignore_eos": True}


@pytest.fixture(scope="module")
def caller(narthex: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=narthex.base_url, api_key=narthex.key, max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_client(narthex: Gateway) -> Iterator[anthropic.Anthropic]:
    root = narthex.base_url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=root, api_key=narthex.key, max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def http_client(narthex: Gateway) -> Iterator[httpx2.Client]:
    root, headers = narthex.base_url.removesuffix("/v1"), {"authorization": f"Bearer {narthex.key}"}
    with httpx2.Client(base_url=root, headers=headers, timeout=120) as client:
        yield client


def has_uuid7(text: str, prefix: str) -> bool:
    return text.startswith(prefix) and UUID(text.removeprefix(prefix)).version == 7


def test_streamed_completion_equals_the_unstreamed_one(caller: openai.OpenAI):
    unstreamed = caller.completions.create(model=MODEL, prompt="Once", max_tokens=12, extra_body=GREEDY_WITHOUT_EOS)
    assert has_uuid7(unstreamed.id, "cmpl-")
    assert (unstreamed.model, unstreamed.choices[0].finish_reason) == (MODEL, "length")
    assert unstreamed.usage
    assert unstreamed.usage.completion_tokens == 12
    with_usage = {**GREEDY_WITHOUT_EOS, "stream_options": {"include_usage": True}}
    chunks = list(caller.completions.create(model=MODEL, prompt="Once", max_tokens=12, stream=True, extra_body=with_usage))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == unstreamed.choices[0].text
    assert len({chunk.id for chunk in chunks}) == 1
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [12]


def test_completion_accepts_several_prompts_and_token_ids(caller: openai.OpenAI):
    several = caller.completions.create(model=MODEL, prompt=["One", "Two"], max_tokens=6, extra_body=GREEDY_WITHOUT_EOS)
    assert [choice.index for choice in several.choices] == [0, 1]
    one = caller.completions.create(model=MODEL, prompt="Two", max_tokens=6, extra_body=GREEDY_WITHOUT_EOS)
    assert one.choices[0].text == several.choices[1].text
    ids = caller.completions.create(model=MODEL, prompt=[40, 41, 42], max_tokens=6, extra_body=GREEDY_WITHOUT_EOS)
    assert ids.usage
    assert (ids.usage.prompt_tokens, ids.usage.completion_tokens) == (3, 6)


def test_streamed_response_equals_the_unstreamed_one(caller: openai.OpenAI):
    fields: dict[str, Any] = {"model": MODEL, "input": "hi", "max_output_tokens": 16, "temperature": 0}
    create: Any = caller.responses.create
    unstreamed = create(**fields)
    assert has_uuid7(unstreamed.id, "resp_")
    assert (unstreamed.model, unstreamed.object) == (MODEL, "response")
    assert unstreamed.usage
    assert unstreamed.usage.output_tokens
    with caller.responses.stream(**fields) as stream:
        events: list[Any] = list(stream)
    last = events[-1].response
    # vLLM 0.32 ends the stream of a truncated response with response.completed, though its status is incomplete.
    assert (events[0].type, events[-1].type) == ("response.created", f"response.{unstreamed.status}")
    assert (last.status, last.output_text) == (unstreamed.status, unstreamed.output_text)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert has_uuid7(last.id, "resp_")


def test_streamed_message_equals_the_unstreamed_one(anthropic_client: anthropic.Anthropic):
    fields: dict[str, Any] = {"model": MODEL, "messages": HI, "max_tokens": 16, "extra_body": GREEDY}
    create: Any = anthropic_client.messages.create
    unstreamed = create(**fields)
    assert has_uuid7(unstreamed.id, "msg_")
    assert (unstreamed.model, unstreamed.role, unstreamed.type) == (MODEL, "assistant", "message")
    assert unstreamed.usage.output_tokens
    with anthropic_client.messages.stream(**fields) as stream:
        events = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert (events[0], events[-1]) == ("message_start", "message_stop")
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in unstreamed.content]
    assert streamed.stop_reason == unstreamed.stop_reason
    assert has_uuid7(streamed.id, "msg_")


@pytest.mark.parametrize("api", TOOL_LOOPS)
def test_strict_call_and_its_result_are_a_loop_in_each_api(caller: openai.OpenAI, anthropic_client: anthropic.Anthropic, api: str):
    TOOL_LOOPS[api](caller, anthropic_client, MODEL)


def test_count_tokens_equals_the_input_tokens_of_the_message(anthropic_client: anthropic.Anthropic):
    counted = anthropic_client.messages.count_tokens(model=MODEL, messages=HI)
    unstreamed = anthropic_client.messages.create(model=MODEL, messages=HI, max_tokens=1)
    assert counted.input_tokens == unstreamed.usage.input_tokens > 2


def test_streamed_generate_returns_the_token_ids_of_the_unstreamed_one(http_client: httpx2.Client):
    fields = {"model": MODEL, "token_ids": [40, 41, 42], "sampling_params": {"max_tokens": 12, "temperature": 0, "ignore_eos": True}}
    answer = http_client.post("/inference/v1/generate", json={**fields, "request_id": "mine"})
    assert answer.status_code == 200, answer.text
    unstreamed = answer.json()
    assert UUID(unstreamed["request_id"]).version == 7
    assert unstreamed["request_id"] == answer.headers["x-narthex-inference-id"]
    [choice] = unstreamed["choices"]
    assert (len(choice["token_ids"]), choice["finish_reason"], unstreamed["model"]) == (12, "length", MODEL)
    assert (unstreamed["usage"]["prompt_tokens"], unstreamed["usage"]["completion_tokens"]) == (3, 12)
    streamed = http_client.post("/inference/v1/generate", json={**fields, "stream": True, "stream_options": {"include_usage": True}})
    *data, done = [line.removeprefix("data: ") for line in streamed.text.split("\n\n") if line]
    chunks = [json.loads(each) for each in data]
    assert done == "[DONE]"
    assert [id for chunk in chunks for each in chunk["choices"] for id in each["token_ids"]] == choice["token_ids"]
    assert {chunk["request_id"] for chunk in chunks} == {streamed.headers["x-narthex-inference-id"]}
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk["usage"]] == [12]
    without_usage = http_client.post("/inference/v1/generate", json={**fields, "stream": True})
    assert '"completion_tokens"' not in without_usage.text


def test_generate_with_unknown_token_ids_is_a_400(http_client: httpx2.Client):
    refused = http_client.post("/inference/v1/generate", json={"model": MODEL, "token_ids": [10**6], "sampling_params": {}})
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["message"]


@pytest.fixture(scope="module")
def embedder() -> Iterator[Engine]:
    with running_vllm(VENV, "pooling") as engine:
        yield engine


@pytest.fixture(scope="module")
def embedding_client(narthex: Gateway, embedder: Engine) -> Iterator[openai.OpenAI]:
    """A client of a gateway in front of the embedding engine; depends on `narthex` so that it starts after the other engine has."""
    with (
        running_narthex(engine_configuration("vllm", embedder)) as gateway,
        openai.OpenAI(base_url=gateway.base_url, api_key=gateway.key, max_retries=0, timeout=120) as client,
    ):
        yield client


def test_embeddings_are_equal_in_both_encodings(embedding_client: openai.OpenAI):
    by_default = embedding_client.embeddings.create(model=MODEL, input=["one text", "another"])
    as_floats = embedding_client.embeddings.create(model=MODEL, input=["one text", "another"], encoding_format="float")
    assert [each.index for each in by_default.data] == [0, 1]
    assert (by_default.model, by_default.object) == (MODEL, "list")
    assert by_default.usage.prompt_tokens == len("one text" + "another")
    for packed, floats in zip(by_default.data, as_floats.data, strict=True):
        assert len(floats.embedding) == 128
        assert packed.embedding == pytest.approx(floats.embedding, abs=1e-6)


def test_embedding_usage_counts_token_ids_exactly(embedding_client: openai.OpenAI):
    assert embedding_client.embeddings.create(model=MODEL, input=[40, 41, 42]).usage.prompt_tokens == 3
    several = embedding_client.embeddings.create(model=MODEL, input=[[40, 41], [42]])
    assert (len(several.data), several.usage.prompt_tokens) == (2, 3)


def test_unsupported_embedding_dimensions_are_a_400(embedding_client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="atryoshka"):
        embedding_client.embeddings.create(model=MODEL, input="one text", dimensions=5)


def test_float16_embeddings_pass_through_as_packed(embedding_client: openai.OpenAI):
    body: dict[str, Any] = {"model": MODEL, "input": "one text", "encoding_format": "base64", "embed_dtype": "float16"}
    packed: Any = embedding_client.post("/embeddings", body=body, cast_to=object)
    assert len(packed["data"][0]["embedding"]) == 344  # 128 numbers of two bytes
