"""mini-sglang behind the gateway, asked by the official SDKs of three APIs: whole answers out of streams, and no usage invented."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.stories.engines.callers import HI, Caller, Chat
from tests.stories.engines.mini_sglang import ScriptedMiniSGLang
from tests.stories.service import Service

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
    running.fresh()
    return running


async def test_an_answer_is_heard_whole_and_streamed(mini: ScriptedMiniSGLang, caller: Caller):
    whole, streamed = await caller.ask("mini"), await caller.stream("mini")
    assert (whole.text, whole.finish) == ("Hello.", "stop")
    assert streamed == whole and mini.ignored == set()
    assert all(body["stream"] is True and "stream_options" not in body for body in mini.bodies)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_it_streams_is_a_chat_completion_to_its_caller(mini: ScriptedMiniSGLang, client: httpx.AsyncClient, stream: bool):
    answer = await client.post(CHAT, json={"model": "mini", "messages": HI, "stream": stream})
    assert '"object":"chat.completion' in answer.text and '"model":"mini"' in answer.text and "created" in answer.text
    assert "text_completion" not in answer.text and "cmpl-7" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_no_usage_is_invented(mini: ScriptedMiniSGLang, client: httpx.AsyncClient, service: Service, stream: bool):
    body: dict[str, Any] = {"model": "mini", "messages": HI, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    answer = await client.post(CHAT, json=body)
    assert "usage" not in answer.text
    row = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert (row["input_tokens"], row["output_tokens"]) == (None, None)


async def test_who_does_not_say_how_much_gets_16_tokens_or_what_the_operator_says(mini: ScriptedMiniSGLang, sdk: openai.AsyncOpenAI):
    """It says `stop` at its most tokens, too: nobody can tell the two apart."""
    mini.words = ["a"] * 50
    for model, length in (("mini", 16), ("roomy", 50)):
        heard = await Chat(sdk).ask(model)
        assert (len(heard.text), heard.finish) == (length, "stop")


async def test_a_raw_prompt_is_gone_on_with(mini: ScriptedMiniSGLang, client: httpx.AsyncClient):
    answer = await client.post(CHAT, json={"model": "mini", "prompt": "Once upon", "max_tokens": 1})
    assert answer.json()["choices"][0]["message"]["content"] == "Hel"
    assert mini.bodies == [{"model": "engine-model", "prompt": "Once upon", "max_tokens": 1, "stream": True}]


async def test_all_that_its_api_documents_is_sent_or_refused(mini: ScriptedMiniSGLang, client: httpx.AsyncClient):
    sent = {"max_tokens": 100, "temperature": 0.7, "top_k": 50, "top_p": 0.95, "ignore_eos": False}
    idle: dict[str, Any] = {"n": 1, "stop": [], "presence_penalty": 0.0, "frequency_penalty": 0.0, "stream": False}
    answer = await client.post(CHAT, json={"model": "mini", "messages": HI, **sent, **idle})
    assert answer.status_code == 200 and mini.ignored == set()
    assert mini.bodies == [{"model": "engine-model", "messages": HI, **sent, "stream": True}]
    for field, said in {"n": 2, "stop": ["END"], "presence_penalty": 0.5, "frequency_penalty": 0.5}.items():
        answer = await client.post(CHAT, json={"model": "mini", "messages": HI, field: said})
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, field)
    assert len(mini.bodies) == 1


async def test_tools_and_constraints_are_refused_before_it_works(mini: ScriptedMiniSGLang, caller: Caller):
    for asked in ({"tools": caller.tools}, caller.schema({"type": "object"})):
        with pytest.raises((openai.UnprocessableEntityError, anthropic.UnprocessableEntityError)):
            await caller.ask("mini", **asked)
    assert mini.bodies == []


async def test_its_own_failure_is_an_upstream_failure(mini: ScriptedMiniSGLang, sdk: openai.AsyncOpenAI):
    mini.breaks = True
    with pytest.raises(openai.InternalServerError, match="Internal Server Error") as failed:
        await Chat(sdk).ask("mini")
    assert failed.value.status_code == 502


async def test_hanging_up_closes_its_connection(mini: ScriptedMiniSGLang, client: httpx.AsyncClient):
    mini.slow = True
    async with client.stream("POST", CHAT, json={"model": "mini", "messages": HI, "stream": True}) as answer:
        async for _ in answer.aiter_bytes():
            break
    await asyncio.wait_for(mini.left.wait(), 5)
