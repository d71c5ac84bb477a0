"""Text Generation Inference behind the gateway, called through the official SDKs of three APIs."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.engines.openai_output import ModelOutput
from tests.support.engines.tgi import ScriptedTGI
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.sdk_callers import HI, Caller, ChatCaller

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
    running.reset()
    return running


async def test_response_is_the_same_whole_and_streamed(tgi: ScriptedTGI, caller: Caller):
    unstreamed, streamed = await caller.create("tgi"), await caller.stream("tgi")
    assert (unstreamed.text, unstreamed.finish, unstreamed.output_tokens) == ("Hello.", "stop", 2)
    assert streamed == unstreamed and tgi.ignored_fields == set()


async def test_tool_call_finish_reason_is_corrected_whole_and_streamed(tgi: ScriptedTGI, caller: Caller):
    """TGI sends `stop` after calls; callers get the finish reason of their API for calls."""
    tgi.output = ModelOutput(calls=(("weather", '{"city": "Paris"}'),))
    for response in (await caller.create("tgi", tools=caller.tools), await caller.stream("tgi", tools=caller.tools)):
        assert (response.calls, response.finish) == ((("weather", '{"city": "Paris"}'),), "tool_calls")
    assert tgi.ignored_fields == set()


async def test_json_schema_is_sent_in_tgi_form_and_validated(tgi: ScriptedTGI, caller: Caller):
    tgi.output = ModelOutput('{"a": 1}')
    for response in (
        await caller.create("tgi", **caller.schema_fields(SCHEMA)),
        await caller.stream("tgi", **caller.schema_fields(SCHEMA)),
    ):
        assert (response.text, response.guided) == ('{"a": 1}', "validated")
    assert all(body["response_format"]["value"]["schema"] == SCHEMA for body in tgi.bodies)


@pytest.mark.parametrize(
    ("field", "value", "guided"), [("guided_choice", ["yes", "no"], "converted"), ("guided_regex", "[a-z]+", "enforced")]
)
async def test_guided_choice_and_regex_are_sent_as_regex(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI, field: str, value: Any, guided: str):
    tgi.output = ModelOutput("yes")
    response = await ChatCaller(sdk).create("tgi", extra_body={field: value})
    assert (response.text, response.guided, tgi.bodies[0]["response_format"]["type"]) == ("yes", guided, "regex")


async def test_openai_and_engine_fields_are_translated_to_tgi_fields(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
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
    assert (body["stop"], body["max_tokens"], tgi.repetition_penalty, tgi.ignored_fields) == (["END"], 7, 1.25, set())


async def test_presence_penalty_is_refused_or_dropped_and_never_sent_as_repetition_penalty(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await sdk.chat.completions.create(model="tgi", messages=HI, presence_penalty=0.5)
    assert refused.value.param == "presence_penalty" and tgi.bodies == []
    response = await ChatCaller(sdk).create("tgi", presence_penalty=0.5, extra_headers={"x-narthex-drop": "presence_penalty"})
    assert response.dropped == "presence_penalty" and tgi.repetition_penalty is None


async def test_response_format_beside_tools_is_demanded_in_the_prompt(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    tgi.output = ModelOutput('{"a": 1}')
    response = await sdk.chat.completions.create(model="tgi", messages=HI, tools=ChatCaller.tools, response_format=FORMAT)
    assert response.choices[0].message.content == '{"a": 1}'
    [body] = tgi.bodies
    assert body["tools"] and "response_format" not in body and "JSON schema" in str(body["messages"][0]["content"])


async def test_validation_overload_and_generation_errors_get_422_429_and_502(tgi: ScriptedTGI, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.UnprocessableEntityError, match=r"must be > 0\.0"):
        await ChatCaller(sdk).create("tgi", top_p=0)
    tgi.overloaded = True
    with pytest.raises(openai.RateLimitError, match="overloaded"):
        await ChatCaller(sdk).create("tgi")
    tgi.overloaded, tgi.generation_fails = False, True
    with pytest.raises(openai.InternalServerError, match="failed during generation") as failed:
        await ChatCaller(sdk).create("tgi")
    assert failed.value.status_code == 502


async def test_error_event_midstream_is_forwarded_and_ends_without_done(tgi: ScriptedTGI, client: httpx2.AsyncClient):
    tgi.fails_midway = True
    answer = await client.post("/v1/chat/completions", json={"model": "tgi", "messages": HI, "stream": True})
    assert "Hel" in answer.text and "Request failed during generation" in answer.text and "[DONE]" not in answer.text


@pytest.mark.parametrize("stream", [False, True], ids=["unstreamed", "streamed"])
async def test_client_disconnect_closes_the_upstream_connection(tgi: ScriptedTGI, caller: Caller, stream: bool):
    tgi.slow = True
    pending = asyncio.create_task(caller.stream("tgi") if stream else caller.create("tgi"))
    await wait_until(lambda: tgi.bodies != [])
    pending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pending
    await asyncio.wait_for(tgi.disconnected.wait(), GENEROUS_S)


async def test_embeddings_are_501(tgi: ScriptedTGI, client: httpx2.AsyncClient):
    answer = await client.post("/v1/embeddings", json={"model": "tgi", "input": "Hello."})
    assert answer.status_code == 501 and "no API" in answer.json()["error"]["message"]
