"""Text Generation Inference behind the gateway, asked by the official SDKs of three APIs."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import openai
import pytest

from tests.stories.engines.callers import HI, Caller, Chat
from tests.stories.engines.telling import Saying
from tests.stories.engines.tgi import ScriptedTGI
from tests.stories.service import Service

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[ScriptedTGI]:
    engine = ScriptedTGI()
    await engine.server.start()
    service.apply(f"""
        [providers]
        tgi = {{ adapter = "tgi", base_url = "http://127.0.0.1:{engine.server.port}" }}
        [models]
        tgi = {{ targets = [{{ provider = "tgi", model = "engine-model" }}] }}
    """)
    yield engine
    await engine.server.stop()


@pytest.fixture
def tgi(running: ScriptedTGI) -> ScriptedTGI:
    running.fresh()
    return running


async def test_an_answer_is_heard_whole_and_streamed(tgi: ScriptedTGI, caller: Caller):
    whole, streamed = await caller.ask("tgi"), await caller.stream("tgi")
    assert (whole.text, whole.finish, whole.output_tokens) == ("Hello.", "stop", 2)
    assert streamed == whole and tgi.ignored == set()


async def test_a_call_is_heard_whole_and_streamed(tgi: ScriptedTGI, caller: Caller):
    """It ends with `stop`, which every caller is told as the end with calls that it is."""
    tgi.saying = Saying(calls=(("weather", '{"city": "Paris"}'),))
    for heard in (await caller.ask("tgi", tools=caller.tools), await caller.stream("tgi", tools=caller.tools)):
        assert (heard.calls, heard.finish) == ((("weather", '{"city": "Paris"}'),), "tool_calls")
    assert tgi.ignored == set()


async def test_a_schema_is_said_in_its_words_and_the_answer_is_looked_at(tgi: ScriptedTGI, caller: Caller):
    tgi.saying = Saying('{"a": 1}')
    for heard in (await caller.ask("tgi", **caller.schema(SCHEMA)), await caller.stream("tgi", **caller.schema(SCHEMA))):
        assert (heard.text, heard.guided) == ('{"a": 1}', "validated")
    assert all(body["response_format"]["value"]["schema"] == SCHEMA for body in tgi.bodies)


@pytest.mark.parametrize(("word", "said", "how"), [("guided_choice", ["yes", "no"], "converted"), ("guided_regex", "[a-z]+", "enforced")])
async def test_a_choice_and_a_regex_are_its_regex(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI, word: str, said: Any, how: str):
    tgi.saying = Saying("yes")
    heard = await Chat(sdk).ask("tgi", extra_body={word: said})
    assert (heard.text, heard.guided, tgi.bodies[0]["response_format"]["type"]) == ("yes", how, "regex")


async def test_words_of_openais_and_of_engines_become_its_own(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    await sdk.chat.completions.create(
        model="tgi",
        messages=HI,
        stop="END",
        max_completion_tokens=7,
        top_p=1,
        presence_penalty=0,
        n=1,
        extra_body={"repetition_penalty": 1.25},
    )
    (body,) = tgi.bodies
    assert (body["stop"], body["max_tokens"], tgi.repetition, tgi.ignored) == (["END"], 7, 1.25, set())


async def test_a_presence_penalty_is_not_made_a_repetition_penalty(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await sdk.chat.completions.create(model="tgi", messages=HI, presence_penalty=0.5)
    assert refused.value.param == "presence_penalty" and tgi.bodies == []
    heard = await Chat(sdk).ask("tgi", presence_penalty=0.5, extra_headers={"x-narthex-drop": "presence_penalty"})
    assert heard.dropped == "presence_penalty" and tgi.repetition is None


async def test_tools_and_a_format_are_refused_by_us_and_not_by_it(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.UnprocessableEntityError, match=r"`tools`.*`response_format`"):
        await sdk.chat.completions.create(model="tgi", messages=HI, tools=Chat.tools, response_format=FORMAT)
    assert tgi.bodies == []


async def test_its_errors_are_told_as_whose_fault_they_are(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.UnprocessableEntityError, match=r"must be > 0\.0"):
        await Chat(sdk).ask("tgi", top_p=0)
    tgi.full = True
    with pytest.raises(openai.RateLimitError, match="overloaded"):
        await Chat(sdk).ask("tgi")
    tgi.full, tgi.fails = False, True
    with pytest.raises(openai.InternalServerError, match="failed during generation") as failed:
        await Chat(sdk).ask("tgi")
    assert failed.value.status_code == 502


async def test_an_error_in_its_stream_is_told_in_the_callers(tgi: ScriptedTGI, client: httpx.AsyncClient):
    tgi.dies = True
    answer = await client.post("/v1/chat/completions", json={"model": "tgi", "messages": HI, "stream": True})
    assert "Hel" in answer.text and "Request failed during generation" in answer.text and "[DONE]" not in answer.text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_hanging_up_closes_its_connection(tgi: ScriptedTGI, caller: Caller, stream: bool):
    tgi.slow = True
    asking = asyncio.create_task(caller.stream("tgi") if stream else caller.ask("tgi"))
    async with asyncio.timeout(5):
        while not tgi.bodies:
            await asyncio.sleep(0.01)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        await tgi.left.wait()


async def test_it_has_no_embeddings(tgi: ScriptedTGI, client: httpx.AsyncClient):
    answer = await client.post("/v1/embeddings", json={"model": "tgi", "input": "Hello."})
    assert answer.status_code == 501 and "no API" in answer.json()["error"]["message"]
