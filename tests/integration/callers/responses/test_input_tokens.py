"""POST /v1/responses/input_tokens, through the official SDK: counted by the target where one counts, else estimated."""

import json
from typing import Any

import httpx2
import openai
import pytest

from tests.clients.codex_requests import lite_body, message
from tests.support.processes.service import Service
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

TOOLS: Any = [{"type": "function", "name": "now", "description": "The time.", "parameters": {"type": "object"}, "strict": False}]


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    service.apply(f"""
        [providers]
        counting-gemini = {{ adapter = "gemini", base_url = "http://127.0.0.1:{engines[0].port}" }}
        [models]
        counting-gemini = {{ targets = [{{ provider = "counting-gemini", model = "gemini-4-argon" }}] }}
    """)


async def test_target_that_counts_gets_the_request(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = respond_with()
    counted = await sdk.responses.input_tokens.count(model="claude", input="Hello!", instructions="Be brief.", tools=TOOLS)
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", 42)
    (request,) = [request for request in engine.requests if request.body]
    assert request.path.endswith("/messages/count_tokens")
    assert request.body["system"] == "Be brief." and request.body["tools"][0]["name"] == "now" and "max_tokens" not in request.body


async def test_gemini_counts_what_codex_sends(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(200, b'{"totalTokens": 7}')

    engine.script = script
    body = lite_body("counting-gemini", message("user", "What is 1 + 1?"))
    answer = await client.post("/v1/responses/input_tokens", json=body)
    assert answer.json() == {"object": "response.input_tokens", "input_tokens": 7}
    (request,) = [request for request in engine.requests if request.body]
    assert "functions__exec" in json.dumps(request.body) and request.path.endswith(":countTokens")


async def test_count_is_estimated_where_no_target_counts(client: httpx2.AsyncClient):
    body = {"model": "scripted", "input": [{"role": "user", "content": "word " * 300}]}
    answer = await client.post("/v1/responses/input_tokens", json=body)
    assert answer.status_code == 200 and answer.headers["x-narthex-emulated"] == "input_tokens"
    assert 300 < answer.json()["input_tokens"] < 700


async def test_history_of_a_stored_response_counts(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    first = await sdk.responses.create(model="scripted", input="A long story. " * 50)
    engine.script = respond_with()
    await sdk.responses.input_tokens.count(model="claude", previous_response_id=first.id, input="So?")
    assert "A long story." in json.dumps(engine.requests[-1].body)
    await sdk.responses.input_tokens.count(model="claude", previous_response_id=first.id)
    assert "A long story." in json.dumps(engine.requests[-1].body)


async def test_errors_have_openais_shape(client: httpx2.AsyncClient):
    answer = await client.post("/v1/responses/input_tokens", json={"model": "claude", "input": [{"type": "function_call"}]})
    assert answer.status_code == 400 and set(answer.json()) == {"error"} and answer.json()["error"]["param"] == "input[0].call_id"
    unknown = await client.post("/v1/responses/input_tokens", json={"model": "nobody", "input": "Hi"})
    assert unknown.status_code == 404 and unknown.json()["error"]["param"] == "model"
