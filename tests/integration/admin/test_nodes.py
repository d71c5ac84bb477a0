"""Engines join and leave by themselves: LMDeploy's registration, discovery by DNS names, and endpoints that are drained."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.integration.conftest import NODE_SECRET
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
MODEL_LIST = {"data": [{"id": "internlm", "object": "model", "owned_by": "lmdeploy"}]}


@pytest.fixture(scope="module", autouse=True)
def pools(service: Service) -> None:
    service.apply("""
        [providers]
        joined = { adapter = "lmdeploy", accepts_nodes = true }
        [models]
        internlm = { targets = [{ provider = "joined", model = "internlm" }] }
    """)


@pytest.fixture
async def node() -> AsyncGenerator[ScriptedEngine]:
    """An LMDeploy, as its probes see it."""
    engine = ScriptedEngine()
    engine.get_responses = {"/v1/models": MODEL_LIST, "/health": {"status": "healthy"}, "/terminate": {}}
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
async def proxy(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client that connects as a node does: the secret is the password in the URL."""
    url = httpx2.URL(service.url).copy_with(username="node", password=NODE_SECRET)
    async with httpx2.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


def registration(engine: ScriptedEngine, host: str = "127.0.0.1", **status: Any) -> dict[str, Any]:
    """Returns what lmdeploy's register_to_proxy() sends (api_server.py of 0.18, read 2026-11)."""
    return {"url": f"http://{host}:{engine.port}", "status": {"models": ["internlm"], "role": 1, **status}}


async def wait_until_served(client: httpx2.AsyncClient, times: int = 12) -> None:
    async def is_served() -> bool:
        for _ in range(times):
            answer = await client.post(CHAT, json={"model": "internlm", "messages": HI}, headers={"connection": "close"})
            if answer.status_code != 200:
                return False
        return True

    await wait_until(is_served)


async def remove(service: Service, engine: ScriptedEngine) -> None:
    async with service.admin_client() as admin:
        await admin.post("/nodes/remove", json={"url": f"http://127.0.0.1:{engine.port}"})


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
async def test_node_that_registers_serves_until_it_is_removed(
    service: Service, client: httpx2.AsyncClient, proxy: httpx2.AsyncClient, node: ScriptedEngine, host: str
):
    answer = await proxy.post("/nodes/add", json=registration(node, host))
    assert (answer.status_code, answer.json()) == (200, "Added successfully")
    await wait_until_served(client)
    async with service.admin_client() as admin:
        address = f"http://127.0.0.1:{node.port}"
        assert (await admin.get("/nodes/status")).json()[address]["models"] == ["internlm"]
        # A provider of another test may be configured for a port that is this node's now.
        nodes = [each for each in (await admin.get("/admin/v1/fleet")).json()["data"] if each["registered"]]
        (shown,) = [each for each in nodes if each["endpoint"] == address]
        assert not shown["drained"] and shown["serves"] == ["internlm"]
        inference = (await client.post(CHAT, json={"model": "internlm", "messages": HI})).json()["id"]
        row = await service.wait_for_record(inference)
        assert row["endpoint"] == address
    assert (await proxy.post("/nodes/remove", json={"url": f"http://{host}:{node.port}"})).json() == "Deleted successfully"

    async def is_gone() -> bool:
        answers = [await client.post(CHAT, json={"model": "internlm", "messages": HI}) for _ in range(6)]
        return all(answer.status_code == 502 for answer in answers)

    await wait_until(is_gone)


async def test_node_joins_although_it_does_not_answer_yet(client: httpx2.AsyncClient, service: Service, proxy: httpx2.AsyncClient):
    """LMDeploy registers while it starts."""
    late = ScriptedEngine()
    await late.start()
    port = late.port
    await late.stop()
    late.get_responses = {"/v1/models": MODEL_LIST, "/health": {"status": "healthy"}}
    assert (await proxy.post("/nodes/add", json=registration(late))).status_code == 200
    late._server = await asyncio.start_server(late._handle_connection, "127.0.0.1", port)  # pyright: ignore[reportPrivateUsage]
    await wait_until_served(client, 4)
    await remove(service, late)
    await late.stop()


async def test_models_of_a_node_that_lists_none_are_fetched(service: Service, proxy: httpx2.AsyncClient, node: ScriptedEngine):
    answer = await proxy.post("/nodes/add", json={"url": f"http://127.0.0.1:{node.port}"})
    assert answer.status_code == 200 and any(request.path == "/v1/models" for request in node.get_requests)
    await remove(service, node)


async def test_silent_node_is_removed_and_one_that_answers_probes_stays(
    service: Service, client: httpx2.AsyncClient, proxy: httpx2.AsyncClient, node: ScriptedEngine
):
    """The one that stays registered first: without probes it would expire first."""
    await proxy.post("/nodes/add", json=registration(node))
    await wait_until_served(client, 4)
    silent = ScriptedEngine()
    silent.get_responses = node.get_responses
    await silent.start()
    assert (await proxy.post("/nodes/add", json=registration(silent))).status_code == 200
    both = {f"http://127.0.0.1:{engine.port}" for engine in (node, silent)}
    known: set[str] = set()
    async with service.admin_client() as admin:

        async def are_known(number: int) -> bool:
            nonlocal known
            known = set((await admin.get("/nodes/status")).json()) & both
            return len(known) == number

        await wait_until(lambda: are_known(2))
        await silent.stop()
        await wait_until(lambda: are_known(1))
    assert known == {f"http://127.0.0.1:{node.port}"}
    await remove(service, node)


async def test_the_gateway_itself_is_no_node(proxy: httpx2.AsyncClient, service: Service):
    answer = await proxy.post("/nodes/add", json={"url": service.url, "status": {"models": ["internlm"]}})
    assert answer.status_code == 403 and "is the gateway itself" in str(answer.json()["detail"])


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"url": "http://127.0.0.1:9", "status": {"models": ["other"], "role": 1}}, 400, "No target takes a node with the models other"),
        ({"url": "http://127.0.0.1:9"}, 400, "does not answer"),
        ({"url": "http://127.0.0.1:9", "status": {"models": ["internlm"], "role": 2}}, 400, "role 1 (Hybrid)"),
        ({"url": "ftp://127.0.0.1:9", "status": {"models": ["internlm"]}}, 400, "must be like http://10.0.0.5:23333"),
        ({"url": "http://user:pass@127.0.0.1:9", "status": {"models": ["internlm"]}}, 400, "must be like"),
        ({"url": "http://169.254.169.254", "status": {"models": ["internlm"]}}, 403, "NARTHEX_NODE_NETWORKS"),
        ({"url": "http://10.0.0.5:23333", "status": {"models": ["internlm"]}}, 403, "NARTHEX_NODE_NETWORKS"),
        ({"url": "http://127.0.0.2:23333", "status": {"models": ["internlm"]}}, 403, "not the address that this request comes from"),
        ({"url": "http://no-such-host.invalid:1", "status": {"models": ["internlm"]}}, 400, "cannot be resolved"),
        ({"url": 5}, 422, "Expected `str`"),
        ({}, 422, "missing required field `url`"),
    ],
)
async def test_bad_registration_is_refused_with_the_reason(proxy: httpx2.AsyncClient, body: dict[str, Any], status: int, reason: str):
    answer = await proxy.post("/nodes/add", json=body)
    assert answer.status_code == status and reason in str(answer.json()["detail"])


async def test_node_that_answers_nonsense_is_refused(proxy: httpx2.AsyncClient, node: ScriptedEngine):
    for nonsense in (b"<html>", b'{"data": "none"}', b'{"data": []}'):
        node.get_responses = {"/v1/models": nonsense}
        answer = await proxy.post("/nodes/add", json={"url": f"http://127.0.0.1:{node.port}"})
        assert answer.status_code == 400 and "lists no models" in answer.json()["detail"]


async def test_secret_opens_only_registration(service: Service, proxy: httpx2.AsyncClient):
    url = httpx2.URL(service.url)
    async with httpx2.AsyncClient(base_url=url.copy_with(username="node", password="wrong"), verify=False) as wrong:
        answer = await wrong.post("/nodes/add", json={"url": "http://127.0.0.1:9"})
        assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Basic")
    async with service.keyless_client() as keyless:
        assert (await keyless.post("/nodes/add", json={"url": "http://127.0.0.1:9"})).status_code == 401
    for method, path in (
        ("GET", "/nodes/status"),
        ("POST", "/nodes/terminate"),
        ("GET", "/nodes/terminate_all"),
        ("POST", "/distserve/gc"),
    ):
        assert (await proxy.request(method, path, json={"url": "http://127.0.0.1:9"})).status_code == 401
    async with service.client() as caller:
        assert (await caller.get("/nodes/status")).status_code == 403
        assert (await caller.post("/nodes/add", json={"url": "http://127.0.0.1:9"})).status_code == 403


async def test_admin_terminates_nodes(service: Service, proxy: httpx2.AsyncClient, node: ScriptedEngine):
    async with service.admin_client() as admin:

        async def is_known() -> bool:
            return len((await admin.get("/nodes/status")).json()) == 1

        for path in ("/nodes/terminate", "/nodes/terminate_all"):
            await proxy.post("/nodes/add", json=registration(node))
            await wait_until(is_known)
            assert (await admin.post("/distserve/connection_warmup")).json() == {"SUCCESS": True}
            answer = await (admin.get(path) if path.endswith("all") else admin.post(path, json={"url": f"http://127.0.0.1:{node.port}"}))
            assert "terminated successfully" in answer.json().lower(), answer.text
        assert [request.path for request in node.get_requests].count("/terminate") == 2
        assert (await admin.post("/nodes/terminate", json={"url": "http://127.0.0.1:9"})).status_code == 400
        assert (await admin.post("/distserve/gc")).json() == {"SUCCESS": True}


async def test_registration_does_not_change_the_configurations_hash(
    service: Service, client: httpx2.AsyncClient, proxy: httpx2.AsyncClient, node: ScriptedEngine, engine: ScriptedEngine
):
    async def recorded_hash() -> str:
        inference = (await client.post(CHAT, json={"model": "scripted", "messages": HI})).json()["id"]
        return (await service.wait_for_record(inference))["snapshot"]

    async with service.admin_client() as admin:
        before, version = await recorded_hash(), (await admin.get("/health/ready")).json()["configuration"]
        await proxy.post("/nodes/add", json=registration(node))

        async def is_newer() -> bool:
            return (await admin.get("/health/ready")).json()["configuration"] > version

        await wait_until(is_newer)
    assert await recorded_hash() == before
    await remove(service, node)


async def test_addresses_behind_a_name_are_endpoints(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    service.apply(f"""
        [providers]
        named = {{ adapter = "openai", base_url = "dns+http://localhost:{engine.port}/v1" }}
        [models]
        named = {{ targets = [{{ provider = "named", model = "engine-model" }}] }}
    """)
    answer = await client.post(CHAT, json={"model": "named", "messages": HI})
    assert answer.status_code == 200
    row = await service.wait_for_record(answer.json()["id"])
    assert row["endpoint"] == f"http://127.0.0.1:{engine.port}/v1"


async def test_drained_endpoint_gets_no_new_requests(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    one, two = f"http://127.0.0.1:{engine.port}/v1", f"http://127.0.0.1:{second_engine.port}/v1"
    service.apply(f"""
        [providers]
        drainable = {{ adapter = "openai", base_url = "{one}" }}
        [models]
        drainable = {{ targets = [{{ provider = "drainable", model = "engine-model", endpoints = ["{one}", "{two}"] }}] }}
    """)

    async def send(times: int) -> list[int]:
        engine.requests.clear()
        second_engine.requests.clear()
        for _ in range(times):
            await client.post(CHAT, json={"model": "drainable", "messages": HI}, headers={"connection": "close"})
        return [len(engine.requests), len(second_engine.requests)]

    async with service.admin_client() as admin:
        answer = await admin.post("/admin/v1/fleet/drain", json={"endpoint": one, "provider": "drainable"})
        assert answer.json()["data"] == [{"provider": "drainable", "endpoint": one, "drained": True}]

        async def is_drained() -> bool:
            return await send(12) == [0, 12]

        await wait_until(is_drained)
        assert {"provider": "drainable", "endpoint": one} in (await admin.get("/admin/v1/fleet")).json()["drained"]
        await admin.post("/admin/v1/fleet/drain", json={"endpoint": one, "drained": False})

        async def is_back() -> bool:
            return min(await send(12)) >= 4

        await wait_until(is_back)
        unknown = await admin.post("/admin/v1/fleet/drain", json={"endpoint": "http://127.0.0.1:1"})
        assert unknown.status_code == 404
