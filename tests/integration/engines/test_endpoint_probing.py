"""Probes of endpoints: requests are written for the engine that an endpoint reports to be, whatever it is configured as."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.service_inspection import wait_until_endpoints
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
SECRET = "the-credential-of-this-provider"


def model_list(owner: str, **more: Any) -> dict[str, Any]:
    return {"data": [{"id": "base", "object": "model", "owned_by": owner, **more}]}


class EnginePool(NamedTuple):
    """An SGLang that is configured as a vLLM, the router production-stack, and two vLLMs, one with the LoRA adapter."""

    sglang: ScriptedEngine
    production_stack: ScriptedEngine
    without_adapter: ScriptedEngine
    with_adapter: ScriptedEngine


@pytest.fixture(scope="module")
async def started(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[EnginePool]:
    """Models: wrong (the SGLang, with a credential), stack, tuned (a LoRA adapter of both vLLMs, which neither lists)."""
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
    await wait_until_endpoints(
        service,
        lambda endpoints: [endpoints.get(name, {}).get("engine") for name in ("wrong", "stack")] == ["sglang", "vllm"],
    )
    yield pool
    for engine in pool:
        await engine.stop()


def _credential(folders: pytest.TempPathFactory) -> Path:
    file = folders.mktemp("credential") / "secret"
    file.write_text(SECRET)
    return file


@pytest.fixture
def pool(started: EnginePool) -> EnginePool:
    for engine in started:
        engine.requests.clear()
        engine.script = ReceivedRequest.respond_completion
    return started


async def test_misconfigured_engine_is_addressed_as_the_engine_it_reports(pool: EnginePool, client: httpx2.AsyncClient):
    answer = await client.post(CHAT, json={**HELLO, "model": "wrong", "guided_regex": "[A-Z][a-z]*"})
    assert answer.status_code == 200 and answer.headers["x-narthex-guided"] == "enforced", answer.text
    sent = pool.sglang.requests[-1].body
    assert "regex" in sent and not {"guided_regex", "structured_outputs"} & sent.keys()


async def test_probes_carry_the_provider_credential(pool: EnginePool):
    probed_paths = {request.path for request in pool.sglang.get_requests}
    assert probed_paths >= {"/v1/models", "/server_info"} and "/health" not in probed_paths  # SGLang would run a generation
    assert {request.headers.get("authorization") for request in pool.sglang.get_requests} == {f"Bearer {SECRET}"}
    assert not any("authorization" in request.headers for request in pool.production_stack.get_requests)


async def test_router_version_is_not_taken_for_the_engine_version(pool: EnginePool, client: httpx2.AsyncClient):
    """A vLLM of version 0.1.9 would have guided_regex, which a current one ignores with a 200."""
    answer = await client.post(CHAT, json={**HELLO, "model": "stack", "guided_regex": "[A-Z].*"})
    assert answer.status_code == 200, answer.text
    assert pool.production_stack.requests[-1].body["structured_outputs"] == {"regex": "[A-Z].*"}


async def test_lora_adapter_missing_on_one_endpoint_is_requested_from_another(pool: EnginePool, client: httpx2.AsyncClient):
    async def refuse_adapter(request: ReceivedRequest) -> None:
        error = {"message": "The model `sql` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}
        await request.respond(404, json.dumps({"error": error}).encode())

    pool.without_adapter.script = refuse_adapter
    for _ in range(4):
        answer = await client.post(CHAT, json={**HELLO, "model": "tuned"})
        assert answer.status_code == 200, answer.text
    assert {request.body["model"] for engine in (pool.without_adapter, pool.with_adapter) for request in engine.requests} == {"sql"}
    pool.with_adapter.script = refuse_adapter
    answer = await client.post(CHAT, json={**HELLO, "model": "tuned"})
    assert answer.status_code == 404 and "`sql` does not exist" in answer.json()["error"]["message"]


async def test_wrong_address_is_reported_by_every_command_the_metric_and_the_first_error(service: Service, tmp_path: Path):
    """Another service of the company answers there."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int((re.search(rb"content-length: (\d+)", head) or [b"", b"0"])[1]))
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 14\r\n\r\n<html>?</html>")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as web_server:
        address = f"http://127.0.0.1:{web_server.sockets[0].getsockname()[1]}"
        file = tmp_path / "wiki.toml"
        file.write_text(f"""
            [providers.wiki]
            adapter = "vllm"
            base_url = "{address}"
            [models.misplaced]
            targets = [{{ provider = "wiki", model = "m" }}]
        """)
        applied = json.loads((await asyncio.to_thread(service.run, "apply", str(file), "--yes", "--json")).stdout)
        assert [warning for warning in applied["warnings"] if address in warning and "no such API" in warning]
        await wait_until_endpoints(service, lambda endpoints: endpoints.get("wiki", {}).get("health") == "no_api")
        listed = await asyncio.to_thread(service.run, "engines", "list")
        assert f"{address}: something answers, but there is no such API there" in listed.stdout
        assert f"Provider wiki on {address} has no such API" in (await asyncio.to_thread(service.run, "doctor")).stdout
        async with service.client() as client:
            response = await client.post(CHAT, json={"model": "misplaced", **HELLO})
            error = response.json()["error"]
            assert (response.status_code, error["type"]) == (502, "backend_error")
            assert "There is no such API at the address of wiki: it answers 404 with a web page." in error["message"]

            async def is_counted() -> bool:
                return 'narthex_endpoints{provider="wiki",state="no_api"} 1.0' in (await client.get(f"{service.url}/metrics")).text

            await wait_until(is_counted)
