"""The bound of connections to one address: requests beyond it wait, and both the bound and the wait are shown."""

import asyncio
import re

import httpx2

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

CONFIGURATION = """
[providers.only]
adapter = "openai"
base_url = "http://127.0.0.1:{port}/v1"
[models.held]
targets = [{{ provider = "only", model = "engine-model" }}]
"""


async def read_metrics(client: httpx2.AsyncClient, address: str) -> dict[str, float]:
    """Returns the metrics about connections to an address, and to any."""
    page = (await client.get("/metrics")).text.replace(f'address="{address}"', "").replace("{}", "")
    return {name: float(value) for name, value in re.findall(r"^narthex_endpoint_(\S+) (\S+)$", page, re.MULTILINE)}


async def test_requests_beyond_the_bound_of_connections_wait_and_are_shown():
    service = await asyncio.to_thread(services.start, workers=1, endpoint_connections=1)
    engine, release = ScriptedEngine(), asyncio.Event()

    async def respond_later(request: ReceivedRequest) -> None:
        await release.wait()
        await request.respond_completion()

    engine.script = respond_later
    await engine.start()
    try:
        await asyncio.to_thread(service.apply, CONFIGURATION.format(port=engine.port))
        await check_waiting_requests(service, engine, release)
    finally:
        release.set()
        await asyncio.to_thread(services.stop, service)
        await engine.stop()


async def check_waiting_requests(service: Service, engine: ScriptedEngine, release: asyncio.Event) -> None:
    address = f"http://127.0.0.1:{engine.port}"

    async def list_connections() -> dict[str, int]:
        listed = (await admin.get("/admin/v1/endpoints")).json()["data"]
        return next(each["connections"] for each in listed if each["endpoint"].startswith(address))

    async def do_two_wait() -> bool:
        return await list_connections() == {"busy": 1, "idle": 0, "max": 1, "waiting": 2}

    async with service.client() as client, service.admin_client() as admin:
        body = {"model": "held", "messages": [{"role": "user", "content": "Hi"}]}
        sent = [asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(3)]
        await wait_until(do_two_wait)
        metrics = await read_metrics(client, address)
        assert (metrics["connections_max"], metrics["requests_waiting"], len(engine.requests)) == (1, 2, 1)
        listed = await asyncio.to_thread(service.run, "engines", "list")
        assert "2 requests wait for one of 1 connections (NARTHEX_ENDPOINT_CONNECTIONS)" in listed.stdout
        release.set()
        assert [each.status_code for each in await asyncio.gather(*sent)] == [200] * 3
        metrics = await read_metrics(client, address)
        assert metrics["connection_wait_seconds_count"] == 2 and metrics["connection_wait_seconds_sum"] > 0
        assert await list_connections() == {"busy": 0, "idle": 1, "max": 1, "waiting": 0}
