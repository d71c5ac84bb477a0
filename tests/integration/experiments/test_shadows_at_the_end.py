"""Shadows when a process ends: nobody waits for them, and nothing of them is charged to whoever sent the request."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator

import pytest

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

BODY = {"model": "end-one", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 10}
CONFIGURATION = """
[teams.end-lab]
[providers]
end-first = {{ adapter = "openai", base_url = "{first}" }}
end-second = {{ adapter = "openai", base_url = "{second}" }}
[models]
end-other = {{ targets = [{{ provider = "end-second", model = "m" }}] }}
[models.end-one]
targets = [{{ provider = "end-first", model = "m" }}]
shadow = {{ to = "end-other", team = "end-lab", share = 1 }}
[[prices]]
provider = "end-first"
model = "m"
input = 1000
output = 2000
[[prices]]
provider = "end-second"
model = "m"
input = 1000
output = 2000
[[limits]]
name = "of-each-team"
scope = {{ team = "each" }}
resource = "requests"
amount = 1000
per = "day"
"""


class Ending:
    """A service of one process with two engines, the second of which answers no shadow."""

    def __init__(self, service: Service, second: ScriptedEngine) -> None:
        self.service = service
        self.held = asyncio.Event()
        self.left = asyncio.Event()
        second.script = self._hang

    async def _hang(self, request: ReceivedRequest) -> None:
        self.held.set()
        await request.disconnected.wait()
        self.left.set()

    async def send(self) -> str:
        async with self.service.client() as client:
            answer = await client.post("/v1/chat/completions", json=BODY)
        assert answer.status_code == 200, answer.text
        await asyncio.wait_for(self.held.wait(), 60)
        return answer.headers["x-narthex-inference-id"]

    async def wait_for_another_process(self, pid: int) -> None:
        file = self.service.home / "run" / "gateway-0.pid"
        await wait_until(lambda: file.exists() and file.read_text().strip() not in ("", str(pid)), 120)
        await wait_until(lambda: services.is_ready(self.service.url), 120)

    async def used(self) -> float:
        """Returns how much of the caller's limit of requests a day is used."""
        async with self.service.client() as client:
            limits = (await client.get("/v1/limits")).json()["data"]
        [limit] = [each for each in limits if each["rule"] == "of-each-team"]
        return limit["amount"] - limit["remaining"]


@pytest.fixture
async def ending() -> AsyncGenerator[Ending]:
    first, second = ScriptedEngine(), ScriptedEngine()
    await first.start()
    await second.start()
    service = await asyncio.to_thread(lambda: services.start(workers=1, drain_timeout_s=60, retries=0))
    try:
        urls = {"first": f"http://127.0.0.1:{first.port}", "second": f"http://127.0.0.1:{second.port}"}
        await asyncio.to_thread(service.apply, CONFIGURATION.format(**urls))
        yield Ending(service, second)
    finally:
        await asyncio.to_thread(services.stop, service)
        await first.stop()
        await second.stop()


async def test_drain_does_not_wait_for_a_shadow_which_is_recorded_as_aborted(ending: Ending) -> None:
    service = ending.service
    id = await ending.send()
    pid, began_s = service.pid("gateway-0"), time.monotonic()
    os.kill(pid, signal.SIGTERM)
    await asyncio.wait_for(ending.left.wait(), 30)
    await ending.wait_for_another_process(pid)
    assert time.monotonic() - began_s < 60, "the process waited for as long as a drain may take"
    found: list[dict[str, object]] = []
    async with service.admin_client() as admin:

        async def is_recorded() -> bool:
            found[:] = (await admin.get("/admin/v1/inferences", params={"original_id": id})).json()["data"]
            return bool(found)

        await wait_until(is_recorded, 120)
    assert [(each["outcome"], each["team"]) for each in found] == [("aborted", "end-lab")]
    assert await ending.used() == 1


async def test_kill_leaves_nothing_charged_to_the_caller(ending: Ending) -> None:
    service = ending.service
    id = await ending.send()
    pid = service.pid("gateway-0")
    os.kill(pid, signal.SIGKILL)
    await ending.wait_for_another_process(pid)
    original = await service.wait_for_record(id)
    assert (original["outcome"], original["origin"]) == ("answered", None)
    assert await ending.used() == 1
    async with service.client() as client:

        async def is_counted() -> bool:
            return bool((await client.get("/v1/usage")).json()["data"])

        await wait_until(is_counted)
        [usage] = (await client.get("/v1/usage")).json()["data"]
        assert (usage["requests"], usage["cost_usd"]) == (1, original["cost_microusd"] / 1e6)
