"""Which of a target's endpoints serves a request, through the whole service."""

from typing import Any

import httpx
import openai
import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.service import Service
from tests.support.wait_until import wait_until

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
    """Over one connection, so that one worker serves all turns."""
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


async def test_engine_that_is_busy_with_others_gets_nothing(service: Service, client: httpx.AsyncClient):
    """By its own metrics, which count the requests of all its callers."""
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
