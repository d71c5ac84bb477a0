"""mini-sglang behind the gateway, called through the official SDKs of three APIs: it only streams, and reports no usage."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec.structs import replace

from tests.support.engines.mini_sglang import ScriptedMiniSGLang
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.sdk_callers import HI, Caller, ChatCaller

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[ScriptedMiniSGLang]:
    engine = ScriptedMiniSGLang()
    await engine.server.start()
    service.apply(f"""
        [providers]
        mini = {{ adapter = "mini_sglang", base_url = "http://127.0.0.1:{engine.server.port}" }}
        roomy = {{ adapter = "mini_sglang", base_url = "http://127.0.0.1:{engine.server.port}", options = {{ max_tokens = 100 }} }}
        [models]
        mini = {{ targets = [{{ provider = "mini", model = "engine-model" }}] }}
        roomy = {{ targets = [{{ provider = "roomy", model = "engine-model" }}] }}
    """)
    yield engine
    await engine.server.stop()


@pytest.fixture
def mini(running: ScriptedMiniSGLang) -> ScriptedMiniSGLang:
    running.reset()
    return running


async def test_response_is_the_same_whole_and_streamed(mini: ScriptedMiniSGLang, caller: Caller):
    unstreamed, streamed = await caller.create("mini"), await caller.stream("mini")
    assert (unstreamed.text, unstreamed.finish) == ("Hello.", "stop")
    # It reports no usage: the estimate of a stream counts its chunks.
    assert replace(streamed, output_tokens=unstreamed.output_tokens) == unstreamed and mini.ignored_fields == set()
    assert all(body["stream"] is True and "stream_options" not in body for body in mini.bodies)


@pytest.mark.parametrize("stream", [False, True])
async def test_text_completion_chunks_become_chat_completion_objects(mini: ScriptedMiniSGLang, client: httpx2.AsyncClient, stream: bool):
    answer = await client.post(CHAT, json={"model": "mini", "messages": HI, "stream": stream})
    assert '"object":"chat.completion' in answer.text and '"model":"mini"' in answer.text and "created" in answer.text
    assert "text_completion" not in answer.text and "cmpl-7" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_missing_usage_is_estimated(mini: ScriptedMiniSGLang, client: httpx2.AsyncClient, service: Service, stream: bool):
    body: dict[str, Any] = {"model": "mini", "messages": HI, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    answer = await client.post(CHAT, json=body)
    assert answer.text.count('"estimated":true') == 1
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["input_tokens"], row["output_tokens"]) == (None, None)


async def test_default_max_tokens_is_16_or_the_configured_option(mini: ScriptedMiniSGLang, sdk: openai.AsyncOpenAI):
    """Its finish reason is `stop` also at the limit of tokens: the two cannot be told apart."""
    mini.tokens = ["a"] * 50
    for model, length in (("mini", 16), ("roomy", 50)):
        response = await ChatCaller(sdk).create(model)
        assert (len(response.text), response.finish) == (length, "stop")


async def test_raw_prompt_in_chat_is_forwarded(mini: ScriptedMiniSGLang, client: httpx2.AsyncClient):
    answer = await client.post(CHAT, json={"model": "mini", "prompt": "Once upon", "max_tokens": 1})
    assert answer.json()["choices"][0]["message"]["content"] == "Hel"
    assert mini.bodies == [{"model": "engine-model", "prompt": "Once upon", "max_tokens": 1, "stream": True}]


async def test_every_documented_field_is_sent_neutral_or_refused(mini: ScriptedMiniSGLang, client: httpx2.AsyncClient):
    sent = {"max_tokens": 100, "temperature": 0.7, "top_k": 50, "top_p": 0.95, "ignore_eos": False}
    neutral: dict[str, Any] = {"n": 1, "stop": [], "presence_penalty": 0.0, "frequency_penalty": 0.0, "stream": False}
    answer = await client.post(CHAT, json={"model": "mini", "messages": HI, **sent, **neutral})
    assert answer.status_code == 200 and mini.ignored_fields == set()
    assert mini.bodies == [{"model": "engine-model", "messages": HI, **sent, "stream": True}]
    for field, value in {"logit_bias": {"1": 2}, "frobnicate": 1}.items():
        answer = await client.post(CHAT, json={"model": "mini", "messages": HI, field: value})
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, field)
    assert len(mini.bodies) == 1
    penalties = {"presence_penalty": 0.5, "frequency_penalty": 0.5}  # accepted there, without an effect
    answer = await client.post(CHAT, json={"model": "mini", "messages": HI, **penalties})
    assert answer.status_code == 200 and set(answer.headers["x-narthex-dropped"].split(", ")) == penalties.keys()
    assert penalties.keys().isdisjoint(mini.bodies[1])


async def test_schemas_reach_it_in_its_prompt(mini: ScriptedMiniSGLang, caller: Caller):
    schema = caller.schema_fields({"type": "object"})
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as violated:
        await caller.create("mini", **schema)
    assert violated.value.status_code == 502
    mini.tokens = ["{", "}"]
    for fields in (schema, {"tools": caller.tools, **schema}):
        response = await caller.create("mini", **fields)
        assert (response.text, response.guided) == ("{}", "validated")
    assert all("JSON schema" in body["messages"][0]["content"] for body in mini.bodies) and mini.ignored_fields == set()


async def test_tools_reach_it_in_its_prompt(mini: ScriptedMiniSGLang, caller: Caller):
    await caller.create("mini", tools=caller.tools)
    [body] = mini.bodies
    assert "tools" not in body and "<tools>" in body["messages"][0]["content"]


async def test_engine_500_is_reported_as_500(mini: ScriptedMiniSGLang, sdk: openai.AsyncOpenAI):
    mini.fails = True
    with pytest.raises(openai.InternalServerError, match="Internal Server Error") as failed:
        await ChatCaller(sdk).create("mini")
    assert failed.value.status_code == 500


async def test_client_disconnect_closes_the_upstream_connection(mini: ScriptedMiniSGLang, client: httpx2.AsyncClient):
    mini.slow = True
    async with client.stream("POST", CHAT, json={"model": "mini", "messages": HI, "stream": True}) as answer:
        async for _ in answer.aiter_bytes():
            break
    await asyncio.wait_for(mini.disconnected.wait(), GENEROUS_S)
