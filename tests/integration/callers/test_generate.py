"""LMDeploy's /generate with an ordinary key, streamed and whole, and requests without a model, through the running service."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.store.teams import keys
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, stream_script


def output(text: str, completion_tokens: int, reason: str | None = None) -> dict[str, Any]:
    info = {"prompt_tokens": 3, "completion_tokens": completion_tokens, "finish_reason": reason and {"type": reason}}
    return {"text": text, "output_ids": [1], "meta_info": info}


CHUNKS = (output("Hel", 1), output("lo.", 2), output("", 2, "stop"))
PROMPT = {"prompt": "Hi", "max_tokens": 50}


@pytest.fixture(scope="module")
async def lmdeploy(service: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    service.apply(f"""
        [providers]
        generating = {{ adapter = "lmdeploy", base_url = "http://127.0.0.1:{engine.port}/v1" }}
        [models]
        generate-a = {{ targets = [{{ provider = "generating", model = "engine-model" }}] }}
        generate-b = {{ targets = [{{ provider = "generating", model = "engine-model" }}] }}
    """)
    yield engine
    await engine.stop()


@pytest.fixture
async def caller(service: Service, lmdeploy: ScriptedEngine) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a key for one model that generates, and one of a host that does not."""
    lmdeploy.requests.clear()
    key = await keys.create_key(database_url(service), "generate", models=["generate-a", "claude"])
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        yield client


async def respond_whole(request: ReceivedRequest) -> None:
    await request.respond(200, json.dumps(output("Hello.", 2, "stop")).encode())


@pytest.mark.parametrize("stream", [False, True])
async def test_generate_is_open_to_ordinary_keys_streams_and_needs_no_model(
    service: Service, lmdeploy: ScriptedEngine, caller: httpx2.AsyncClient, stream: bool
):
    lmdeploy.script = stream_script(*CHUNKS) if stream else respond_whole
    answer = await caller.post("/generate", json={**PROMPT, "stream": stream})
    assert answer.status_code == 200, answer.text
    if stream:
        assert answer.headers["content-type"].startswith("text/event-stream")
        *events, done = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
        assert ([json.loads(event) for event in events], done) == ([*CHUNKS], "[DONE]")
    else:
        assert answer.json() == output("Hello.", 2, "stop")
    assert (lmdeploy.requests[-1].path, lmdeploy.requests[-1].body) == ("/generate", {**PROMPT, "stream": stream})
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["model"], row["route"], row["streamed"]) == ("generate-a", "generate", stream)
    assert (row["input_tokens"], row["output_tokens"], row["charged_output"], row["finish_reason"]) == (3, 2, 2, "stop")


async def test_caller_who_leaves_a_generate_stream_is_charged_what_came(
    service: Service, lmdeploy: ScriptedEngine, caller: httpx2.AsyncClient
):
    async def write_on(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(output("Hel", 1))
        async with asyncio.timeout(GENEROUS_S):
            await request.disconnected.wait()

    lmdeploy.script = write_on
    async with caller.stream("POST", "/generate", json={**PROMPT, "stream": True}) as answer:
        id = answer.headers["x-narthex-inference-id"]
        assert "Hel" in await anext(answer.aiter_lines())
    await wait_until(lambda: lmdeploy.requests[-1].disconnected.is_set())
    row = await service.wait_for_record(id)
    assert (row["outcome"], row["charged_output"], row["charge_basis"]) == ("disconnected", 1, "reported")


async def test_route_without_a_model_goes_to_the_keys_only_model_that_serves_it(lmdeploy: ScriptedEngine, caller: httpx2.AsyncClient):
    async def respond(request: ReceivedRequest) -> None:
        body = {"input_ids": [5, 6], "length": 2} if request.path == "/v1/encode" else {"data": [{"index": 0, "data": [0.5]}]}
        await request.respond(200, json.dumps(body).encode())

    lmdeploy.script = respond
    assert (await caller.post("/v1/encode", json={"input": "Hi"})).json() == {"input_ids": [5, 6], "length": 2}
    pooled = await caller.post("/pooling", json={"input": "Hi"})
    assert (pooled.status_code, pooled.json()["model"]) == (200, "generate-a")


async def test_route_without_a_model_lists_the_models_of_the_key_if_several_serve_it(service: Service, lmdeploy: ScriptedEngine):
    key = await keys.create_key(database_url(service), "generate", models=["generate-*"])
    only_host = await keys.create_key(database_url(service), "generate", models=["claude"])
    lmdeploy.requests.clear()
    for path, body in (("/v1/encode", {"input": "Hi"}), ("/pooling", {"input": "Hi"}), ("/generate", PROMPT)):
        async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
            refused = await client.post(path, json=body)
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", "model")
        assert "generate-a, generate-b. Name one" in error["message"] and "claude" not in error["message"]
        async with service.client(headers={"authorization": f"Bearer {only_host}"}) as client:
            refused = await client.post(path, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
        assert "generate-" not in refused.text
    assert not lmdeploy.requests
