"""Ollama behind the gateway, by its own chat, asked by the official SDKs of three APIs."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import openai
import pytest

from tests.stories.engines.callers import HI, Caller, Chat
from tests.stories.engines.ollama import ScriptedOllama
from tests.stories.engines.telling import Saying
from tests.stories.service import Service

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CALLS = (("weather", '{"city": "Paris"}'), ("weather", '{"city": "Rome"}'))


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[ScriptedOllama]:
    engine = ScriptedOllama()
    await engine.server.start()
    service.apply(f"""
        [providers]
        ollama = {{ adapter = "ollama", base_url = "http://127.0.0.1:{engine.server.port}", options = {{ num_ctx = 8192 }} }}
        [models]
        ollama = {{ targets = [{{ provider = "ollama", model = "engine-model" }}] }}
        ollama-unpulled = {{ targets = [{{ provider = "ollama", model = "never-pulled" }}] }}
    """)
    yield engine
    await engine.server.stop()


@pytest.fixture
def ollama(running: ScriptedOllama) -> ScriptedOllama:
    running.fresh()
    return running


async def test_an_answer_is_heard_whole_and_streamed(ollama: ScriptedOllama, caller: Caller):
    ollama.saying = Saying("Hello there.", thoughts="They greet me.")
    whole, streamed = await caller.ask("ollama"), await caller.stream("ollama")
    assert (whole.text, whole.thoughts, whole.finish, whole.output_tokens) == ("Hello there.", "They greet me.", "stop", 2)
    assert streamed == whole and ollama.ignored == set()
    for body in ollama.bodies:
        assert (body["truncate"], body["shift"], body["options"]["num_ctx"]) == (False, False, 8192)


async def test_parallel_calls_are_heard_whole_and_streamed(ollama: ScriptedOllama, caller: Caller):
    ollama.saying = Saying(calls=CALLS)
    whole, streamed = await caller.ask("ollama", tools=caller.tools), await caller.stream("ollama", tools=caller.tools)
    assert [(name, json.loads(said)) for name, said in whole.calls] == [(name, json.loads(said)) for name, said in CALLS]
    assert streamed == whole and whole.finish == "tool_calls" and ollama.ignored == set()


async def test_an_answer_cut_off_by_length_says_so(ollama: ScriptedOllama, caller: Caller):
    ollama.saying = Saying("Once upon", finish="length")
    assert (await caller.ask("ollama")).finish in ("length", "incomplete")
    assert (await caller.stream("ollama")).finish in ("length", "incomplete")


async def test_an_answer_that_obeys_its_schema_is_looked_at_first(ollama: ScriptedOllama, caller: Caller):
    ollama.saying = Saying('{"a": 1}')
    for heard in (await caller.ask("ollama", **caller.schema(SCHEMA)), await caller.stream("ollama", **caller.schema(SCHEMA))):
        assert (heard.text, heard.guided) == ('{"a": 1}', "validated")
    assert [body["format"] for body in ollama.bodies] == [SCHEMA, SCHEMA]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_for_which_it_ignored_the_format_is_none(ollama: ScriptedOllama, client: httpx.AsyncClient, stream: bool):
    """As it does for some models that think (ollama#14645, #15260): not a byte of it goes to the caller."""
    ollama.saying = Saying("Sure! Here is your JSON.")
    answer = await client.post(
        "/v1/chat/completions",
        json={"model": "ollama", "messages": HI, "guided_json": SCHEMA, "reasoning_effort": "none", "stream": stream},
    )
    assert (answer.status_code, answer.json()["error"]["param"]) == (502, "guided_json") and ollama.bodies[0]["think"] is False


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("word", "said"), [("guided_choice", ["yes", "no"]), ("guided_regex", "[a-z]+")])
async def test_a_choice_and_a_regex_come_without_their_quotes(
    ollama: ScriptedOllama, sdk: openai.AsyncOpenAI, word: str, said: Any, stream: bool
):
    ollama.saying = Saying('"yes"')
    caller = Chat(sdk)
    heard = await (caller.stream if stream else caller.ask)("ollama", extra_body={word: said})
    assert (heard.text, heard.guided) == ("yes", "validated")


async def test_what_it_would_ignore_is_refused_by_name_and_never_sent(ollama: ScriptedOllama, sdk: openai.AsyncOpenAI):
    for field, said in {"logit_bias": {"1": 5}, "n": 2, "tool_choice": "required"}.items():
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await sdk.chat.completions.create(model="ollama", messages=HI, tools=Chat.tools, extra_body={field: said})
        assert refused.value.param == field
    assert ollama.bodies == []


async def test_a_conversation_too_long_for_it_is_refused_and_not_cut(ollama: ScriptedOllama, client: httpx.AsyncClient):
    said = [{"role": "user", "content": "word " * 9000}]
    answer = await client.post("/v1/chat/completions", json={"model": "ollama", "messages": said})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "the input length exceeds the context length")


async def test_its_errors_are_told_as_what_they_are(ollama: ScriptedOllama, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError, match="never-pulled"):
        await Chat(sdk).ask("ollama-unpulled")
    ollama.busy = True
    with pytest.raises(openai.InternalServerError, match="server busy") as busy:
        await Chat(sdk).ask("ollama")
    assert busy.value.status_code == 503


async def test_an_error_in_its_stream_is_told_in_the_callers(ollama: ScriptedOllama, client: httpx.AsyncClient):
    ollama.dies = True
    answer = await client.post("/v1/chat/completions", json={"model": "ollama", "messages": HI, "stream": True})
    assert "Hel" in answer.text and "llama runner process has terminated" in answer.text and "[DONE]" not in answer.text


async def test_tokens_that_it_did_not_count_are_not_known(ollama: ScriptedOllama, client: httpx.AsyncClient, service: Service):
    ollama.cached = True
    answer = await client.post("/v1/chat/completions", json={"model": "ollama", "messages": HI})
    assert answer.json()["usage"] == {"completion_tokens": 2}
    row = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert (row["input_tokens"], row["output_tokens"]) == (None, 2)


async def test_hanging_up_closes_its_connection(ollama: ScriptedOllama, client: httpx.AsyncClient):
    ollama.slow = True
    async with client.stream("POST", "/v1/chat/completions", json={"model": "ollama", "messages": HI, "stream": True}) as answer:
        async for _ in answer.aiter_bytes():
            break
    await asyncio.wait_for(ollama.left.wait(), 5)


async def test_a_raw_prompt_goes_to_its_completions(ollama: ScriptedOllama, sdk: openai.AsyncOpenAI):
    answer = await sdk.completions.create(model="ollama", prompt="Once upon", seed=3)
    assert answer.choices[0].text == "Hello." and ollama.bodies == [{"model": "engine-model", "prompt": "Once upon", "seed": 3}]


async def test_its_embeddings_are_asked_for_in_openais_words(ollama: ScriptedOllama, client: httpx.AsyncClient):
    answer = await client.post("/v1/embeddings", json={"model": "ollama", "input": "Hello.", "encoding_format": "float"})
    assert (answer.status_code, answer.json()["data"][0]["embedding"]) == (200, [0.5, 0.25])
    assert ollama.bodies == [{"model": "engine-model", "input": "Hello.", "encoding_format": "float"}]
