"""The choice of the endpoint of a target that serves a request, through the whole service."""

from typing import Any

import httpx2
import openai
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module", autouse=True)
async def pool(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}/v1" for engine in engines)
    service.apply(f"""
        [providers]
        pool = {{ adapter = "openai", base_url = "{one}" }}
        [models]
        pool = {{ targets = [{{ provider = "pool", model = "engine-model", endpoints = ["{one}", "{two}"] }}] }}
    """)


async def test_quiet_endpoints_take_turns(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine):
    for _ in range(12):
        await sdk.chat.completions.create(model="pool", messages=HI)
    served = [len([request for request in each.requests if request.body]) for each in (engine, second_engine)]
    assert sum(served) == 12 and abs(served[0] - served[1]) <= 2  # each of the two workers begins with the first


async def test_chat_stays_at_the_endpoint_that_has_read_it(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine):
    """The chat goes over one connection, so that one worker serves all turns."""
    messages: Any = [{"role": "system", "content": "Answer in one word. " * 100}]
    for number in range(8):
        messages = [*messages, {"role": "user", "content": f"Question {number}?"}]
        answer = await sdk.chat.completions.create(model="pool", messages=messages)
        messages = [*messages, {"role": "assistant", "content": answer.choices[0].message.content}]
    served = [len([request for request in each.requests if request.body]) for each in (engine, second_engine)]
    assert sorted(served) == [0, 8]


async def test_requests_of_a_session_stay_together(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine):
    for number in range(8):
        await sdk.chat.completions.create(
            model="pool", messages=[{"role": "user", "content": f"{number} " * 100}], extra_headers={"x-narthex-session": "a"}
        )
    served = [len([request for request in each.requests if request.body]) for each in (engine, second_engine)]
    assert sorted(served) == [0, 8]


async def test_engine_that_is_busy_with_others_gets_nothing(service: Service, client: httpx2.AsyncClient):
    """An engine's own metrics tell that it is busy: they count the requests of all its callers."""
    busy, quiet = ScriptedEngine(), ScriptedEngine()
    for engine, waiting in ((busy, 40), (quiet, 0)):
        page = f'vllm:num_requests_running{{engine="0"}} 5.0\nvllm:num_requests_waiting{{engine="0"}} {waiting}.0\n'
        engine.get_responses = {
            "/v1/models": {"data": [{"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 100}]},
            "/health": b"",
            "/version": {"version": "0.32.0"},
            "/metrics": page.encode(),
        }
        await engine.start()
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in (busy, quiet))
    service.apply(f"""
        [providers]
        shared = {{ adapter = "vllm", base_url = "{one}" }}
        [models]
        shared = {{ targets = [{{ provider = "shared", model = "m", endpoints = ["{one}", "{two}"] }}] }}
    """)

    async def is_avoided() -> bool:
        busy.requests.clear()
        for number in range(12):
            prompt: Any = [{"role": "user", "content": f"{number} " * 50}]
            await client.post("/v1/chat/completions", json={"model": "shared", "messages": prompt}, headers={"connection": "close"})
        return not busy.requests

    await wait_until(is_avoided)
    # An engine whose metrics cannot be read is not taken for a busy one.
    busy.get_responses["/metrics"] = b"<html>"

    async def is_back() -> bool:
        return not await is_avoided()

    await wait_until(is_back)
    await busy.stop()
    await quiet.stop()


async def test_explanation_says_which_candidates_there_were(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, b"{}")

    body = {"model": "pool", "messages": [{"role": "user", "content": "Why this one? " * 40}]}
    explained = {"x-narthex-explain": "true"}
    answer = await client.post("/v1/chat/completions", json=body, headers=explained)
    shown = answer.headers["x-narthex-candidates"]
    assert shown.startswith("pool[") and "cached=0" in shown and shown.endswith("-> served") and "http" not in shown
    row = await service.wait_for_record(answer.headers["x-request-id"])
    (attempt,) = row["attempts"]
    assert attempt["error"] is None and (attempt["input_tokens"], attempt["output_tokens"]) == (3, 2)
    assert {each["endpoint"] for each in attempt["candidates"]} == {f"http://127.0.0.1:{each}/v1" for each in await ports(service)}

    engine.script = fail
    for number in range(6):  # until the one that fails was first
        body["messages"] = [{"role": "user", "content": f"Failure {number}. " * 20}]
        answer = await client.post("/v1/chat/completions", json=body, headers=explained)
        if "UpstreamFailed" in answer.headers["x-narthex-candidates"]:
            break
    first, second = answer.headers["x-narthex-candidates"].split("; ")
    assert first.endswith("-> UpstreamFailed") and "(tried before)" in second and second.endswith("-> served")
    failed, served = (await service.wait_for_record(answer.headers["x-request-id"]))["attempts"]
    assert (failed["error"], failed["output_tokens"], served["output_tokens"]) == ("UpstreamFailed", 0, 2)
    assert "x-narthex-candidates" not in (await client.post("/v1/chat/completions", json=body)).headers


async def ports(service: Service) -> list[int]:
    async with service.admin_client() as admin:
        endpoints = (await admin.get("/admin/v1/fleet")).json()["data"]
    return [int(each["endpoint"].split(":")[2].split("/")[0]) for each in endpoints if each["provider"] == "pool"]
