"""An endpoint is spoken to as what it answers that it is, whatever it is configured as."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine
from tests.support.service import Service

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
SECRET = "a-credential-of-ours"


def model_list(owner: str, **more: Any) -> dict[str, Any]:
    return {"data": [{"id": "base", "object": "model", "owned_by": owner, **more}]}


class EnginePool(NamedTuple):
    """Engines by the names of our models that they serve: an SGLang that is configured as a vLLM, production-stack, and two vLLMs."""

    sglang: ScriptedEngine
    production_stack: ScriptedEngine
    without_adapter: ScriptedEngine
    with_adapter: ScriptedEngine


@pytest.fixture(scope="module")
async def started(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[EnginePool]:
    """Models: wrong (the SGLang), stack, tuned (a LoRA adapter of both vLLMs, which neither lists), guarded (a vLLM with a credential)."""
    pool = EnginePool(*(ScriptedEngine() for _ in EnginePool._fields))
    pool.sglang.get_responses = {
        "/ready": b"",
        "/v1/models": model_list("sglang"),
        "/server_info": {"version": "0.5.23", "model_path": "base"},
    }
    pool.production_stack.get_responses = {
        "/health": {"status": "healthy"},
        "/v1/models": model_list("vllm"),
        "/version": {"version": "0.1.9"},
        "/engines": [],
    }
    for engine in pool:
        await engine.start()
    secret = _credential(tmp_path_factory)
    one, two, three, four = (f"http://127.0.0.1:{engine.port}" for engine in pool)
    service.apply(f"""
        [providers]
        wrong = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.11.0" }}, credential = "file:{secret}" }}
        stack = {{ adapter = "vllm", base_url = "{two}" }}
        tuned = {{ adapter = "vllm", base_url = "{three}" }}
        [models]
        wrong = {{ targets = [{{ provider = "wrong", model = "base" }}] }}
        stack = {{ targets = [{{ provider = "stack", model = "base" }}] }}
        tuned = {{ targets = [{{ provider = "tuned", model = "base", lora = "sql", endpoints = ["{three}", "{four}"] }}] }}
    """)
    await _wait_until_probed(service, "sglang", "vllm")
    yield pool
    for engine in pool:
        await engine.stop()


def _credential(folders: pytest.TempPathFactory) -> Path:
    place = folders.mktemp("credential") / "secret"
    place.write_text(SECRET)
    return place


async def _wait_until_probed(service: Service, *engines: str) -> None:
    """By both workers: whichever is asked, many times in a row."""
    in_a_row = 0
    async with asyncio.timeout(15):
        while in_a_row < 12:
            async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as fresh:
                reported = {each["provider"]: each["engine"] for each in (await fresh.get("/admin/v1/endpoints")).json()["data"]}
            in_a_row = in_a_row + 1 if (reported.get("wrong"), reported.get("stack")) == engines else 0
            await asyncio.sleep(0.02)


@pytest.fixture
def pool(started: EnginePool) -> EnginePool:
    for engine in started:
        engine.requests.clear()
        engine.script = ReceivedRequest.respond_completion
    return started


async def test_misconfigured_engine_is_addressed_as_the_engine_it_reports(pool: EnginePool, client: httpx.AsyncClient):
    answer = await client.post(CHAT, json={**HELLO, "model": "wrong", "guided_regex": "[A-Z][a-z]*"})
    assert answer.status_code == 200 and answer.headers["x-narthex-guided"] == "enforced", answer.text
    sent = pool.sglang.requests[-1].body
    assert "regex" in sent and not {"guided_regex", "structured_outputs"} & sent.keys()


async def test_probes_carry_the_provider_credential(pool: EnginePool):
    probed_paths = {asked.path for asked in pool.sglang.get_requests}
    assert probed_paths >= {"/v1/models", "/server_info"} and "/health" not in probed_paths  # which would run a generation there
    assert {asked.headers.get("authorization") for asked in pool.sglang.get_requests} == {f"Bearer {SECRET}"}
    assert not any("authorization" in asked.headers for asked in pool.production_stack.get_requests)


async def test_router_version_is_not_taken_for_the_engine_version(pool: EnginePool, client: httpx.AsyncClient):
    """0.1.9 would be a vLLM of the time of guided_regex, which today's answers with 200 and does not obey."""
    answer = await client.post(CHAT, json={**HELLO, "model": "stack", "guided_regex": "[A-Z].*"})
    assert answer.status_code == 200, answer.text
    assert pool.production_stack.requests[-1].body["structured_outputs"] == {"regex": "[A-Z].*"}


async def test_lora_adapter_missing_on_one_endpoint_is_requested_from_another(pool: EnginePool, client: httpx.AsyncClient):
    async def refuse_adapter(request: ReceivedRequest) -> None:
        error = {"message": "The model `sql` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}
        await request.respond(404, json.dumps({"error": error}).encode())

    pool.without_adapter.script = refuse_adapter
    for _ in range(4):
        answer = await client.post(CHAT, json={**HELLO, "model": "tuned"})
        assert answer.status_code == 200, answer.text
    assert {asked.body["model"] for engine in (pool.without_adapter, pool.with_adapter) for asked in engine.requests} == {"sql"}
    pool.with_adapter.script = refuse_adapter
    answer = await client.post(CHAT, json={**HELLO, "model": "tuned"})
    assert answer.status_code == 404 and "`sql` does not exist" in answer.json()["error"]["message"]
