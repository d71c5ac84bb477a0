"""Ollama behind the gateway through its native chat API, called through the official SDKs of three APIs."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.engines.ollama import ScriptedOllama
from tests.support.engines.openai_output import ModelOutput
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.sdk_callers import HI, Caller, ChatCaller

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
    running.reset()
    return running


async def test_response_is_the_same_whole_and_streamed_and_context_is_never_shifted(ollama: ScriptedOllama, caller: Caller):
    ollama.output = ModelOutput("Hello there.", reasoning="They greet me.")
    unstreamed, streamed = await caller.create("ollama"), await caller.stream("ollama")
    assert (unstreamed.text, unstreamed.reasoning) == ("Hello there.", "They greet me.")
    assert (unstreamed.finish, unstreamed.output_tokens) == ("stop", 2)
    assert streamed == unstreamed and ollama.ignored_fields == set()
    for body in ollama.bodies:
        assert (body["truncate"], body["shift"], body["options"]["num_ctx"]) == (False, False, 8192)


async def test_parallel_tool_calls_are_the_same_whole_and_streamed(ollama: ScriptedOllama, caller: Caller):
    ollama.output = ModelOutput(calls=CALLS)
    unstreamed, streamed = await caller.create("ollama", tools=caller.tools), await caller.stream("ollama", tools=caller.tools)
    expected = [(name, json.loads(arguments)) for name, arguments in CALLS]
    assert [(name, json.loads(arguments)) for name, arguments in unstreamed.calls] == expected
    assert streamed == unstreamed and unstreamed.finish == "tool_calls" and ollama.ignored_fields == set()


async def test_length_finish_reason_reaches_the_caller(ollama: ScriptedOllama, caller: Caller):
    ollama.output = ModelOutput("Once upon", finish="length")
    assert (await caller.create("ollama")).finish in ("length", "incomplete")
    assert (await caller.stream("ollama")).finish in ("length", "incomplete")


async def test_json_schema_is_sent_as_format_and_validated(ollama: ScriptedOllama, caller: Caller):
    ollama.output = ModelOutput('{"a": 1}')
    for response in (
        await caller.create("ollama", **caller.schema_fields(SCHEMA)),
        await caller.stream("ollama", **caller.schema_fields(SCHEMA)),
    ):
        assert (response.text, response.guided) == ('{"a": 1}', "validated")
    assert [body["format"] for body in ollama.bodies] == [SCHEMA, SCHEMA]


@pytest.mark.parametrize("stream", [False, True])
async def test_response_ignoring_the_format_is_a_502_naming_the_constraint(
    ollama: ScriptedOllama, client: httpx2.AsyncClient, stream: bool
):
    """Some reasoning models ignore it (ollama#14645, #15260): no byte of the response is sent to the caller."""
    ollama.output = ModelOutput("Sure! Here is your JSON.")
    answer = await client.post(
        "/v1/chat/completions",
        json={"model": "ollama", "messages": HI, "guided_json": SCHEMA, "reasoning_effort": "none", "stream": stream},
    )
    assert (answer.status_code, answer.json()["error"]["param"]) == (502, "guided_json") and ollama.bodies[0]["think"] is False


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("constraint", [{"guided_choice": ["yes", "no"]}, {"guided_regex": "[a-z]+"}], ids=["choice", "regex"])
async def test_guided_choice_and_regex_results_are_unquoted(
    ollama: ScriptedOllama, sdk: openai.AsyncOpenAI, constraint: dict[str, Any], stream: bool
):
    ollama.output = ModelOutput('"yes"')
    caller = ChatCaller(sdk)
    response = await (caller.stream if stream else caller.create)("ollama", extra_body=constraint)
    assert (response.text, response.guided) == ("yes", "validated")


async def test_unsupported_fields_are_refused_by_name_without_an_upstream_call(ollama: ScriptedOllama, sdk: openai.AsyncOpenAI):
    for field, value in {"logit_bias": {"1": 5}, "min_tokens": 3}.items():
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await sdk.chat.completions.create(model="ollama", messages=HI, tools=ChatCaller.tools, extra_body={field: value})
        assert refused.value.param == field
    assert ollama.bodies == []


async def test_prompt_beyond_context_length_is_refused_instead_of_truncated(ollama: ScriptedOllama, client: httpx2.AsyncClient):
    messages = [{"role": "user", "content": "word " * 9000}]
    answer = await client.post("/v1/chat/completions", json={"model": "ollama", "messages": messages})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "the input length exceeds the context length")


async def test_missing_model_is_404_and_busy_server_is_503(ollama: ScriptedOllama, sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError, match="never-pulled"):
        await ChatCaller(sdk).create("ollama-unpulled")
    ollama.busy = True
    with pytest.raises(openai.InternalServerError, match="server busy") as busy:
        await ChatCaller(sdk).create("ollama")
    assert busy.value.status_code == 503


async def test_error_line_midstream_is_forwarded_and_ends_without_done(ollama: ScriptedOllama, client: httpx2.AsyncClient):
    ollama.fails_midway = True
    answer = await client.post("/v1/chat/completions", json={"model": "ollama", "messages": HI, "stream": True})
    assert "Hel" in answer.text and "llama runner process has terminated" in answer.text and "[DONE]" not in answer.text


async def test_uncounted_cached_prompt_tokens_are_recorded_as_unknown(ollama: ScriptedOllama, client: httpx2.AsyncClient, service: Service):
    ollama.prompt_cached = True
    answer = await client.post("/v1/chat/completions", json={"model": "ollama", "messages": HI})
    assert answer.json()["usage"] == {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["input_tokens"], row["output_tokens"]) == (None, 2)


async def test_client_disconnect_closes_the_upstream_connection(ollama: ScriptedOllama, client: httpx2.AsyncClient):
    ollama.slow = True
    async with client.stream("POST", "/v1/chat/completions", json={"model": "ollama", "messages": HI, "stream": True}) as answer:
        async for _ in answer.aiter_bytes():
            break
    await asyncio.wait_for(ollama.disconnected.wait(), GENEROUS_S)


async def test_text_completion_is_sent_to_v1_completions(ollama: ScriptedOllama, sdk: openai.AsyncOpenAI):
    answer = await sdk.completions.create(model="ollama", prompt="Once upon", seed=3)
    assert answer.choices[0].text == "Hello." and ollama.bodies == [{"model": "engine-model", "prompt": "Once upon", "seed": 3}]


async def test_embeddings_use_the_openai_route(ollama: ScriptedOllama, client: httpx2.AsyncClient):
    answer = await client.post("/v1/embeddings", json={"model": "ollama", "input": "Hello.", "encoding_format": "float"})
    assert (answer.status_code, answer.json()["data"][0]["embedding"]) == (200, [0.5, 0.25])
    assert ollama.bodies == [{"model": "engine-model", "input": "Hello.", "encoding_format": "float"}]
