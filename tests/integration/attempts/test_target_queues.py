"""A target's `max_concurrency`: exact over both gateway processes, with fair turns for those that wait."""

import asyncio
from typing import Any

import httpx2
import pytest

from tests.support.gate import Gate
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import connections
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in engines)
    service.apply(f"""
        [providers]
        narrow = {{ adapter = "openai", base_url = "{one}" }}
        wide = {{ adapter = "openai", base_url = "{two}" }}
        [models]
        narrow = {{ targets = [{{ provider = "narrow", model = "m", max_concurrency = 3 }}] }}
        single = {{ targets = [{{ provider = "narrow", model = "one", max_concurrency = 1 }}] }}
        overflowing = {{ targets = [{{ provider = "narrow", model = "o", max_concurrency = 1 }}, {{ provider = "wide", model = "o" }}] }}
    """)


async def test_no_more_than_the_places_run_at_once_over_all_processes(service: Service, engine: ScriptedEngine):
    async def answer_soon(request: ReceivedRequest) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        await request.respond_completion()

    running = most = 0
    engine.script = answer_soon
    async with connections(service, 20) as callers:
        answers = await asyncio.gather(*(caller.post(CHAT, json={"model": "narrow", "messages": HI}) for caller in callers))
    assert [answer.status_code for answer in answers] == [200] * 20 and most == 3


async def test_full_target_is_passed_over_for_another(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    gate = Gate()
    engine.script = gate.script
    first = asyncio.create_task(client.post(CHAT, json={"model": "overflowing", "messages": HI}))
    await wait_until(lambda: gate.running == 1)
    answer = await client.post(CHAT, json={"model": "overflowing", "messages": HI})
    assert answer.headers["x-narthex-served"] == "wide/o"
    gate.opened.set()
    assert (await first).headers["x-narthex-served"] == "narrow/o"


async def test_caller_who_leaves_the_queue_or_the_response_leaves_no_place_taken(service: Service, engine: ScriptedEngine):
    gate = Gate()
    engine.script = gate.script
    async with connections(service, 6) as callers:
        tasks = [asyncio.create_task(caller.post(CHAT, json={"model": "single", "messages": HI})) for caller in callers]
        await wait_until(lambda: gate.running == 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await wait_until(lambda: gate.running == 0)
    gate.opened.set()
    async with service.client() as client:
        answers = await asyncio.gather(*(client.post(CHAT, json={"model": "single", "messages": HI}) for _ in range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4


@pytest.mark.parametrize("wrong", ["1", "-101", "high"])
async def test_caller_may_only_lower_its_priority(client: httpx2.AsyncClient, wrong: str):
    refused = await client.post(CHAT, json={"model": "single", "messages": HI}, headers={"x-narthex-priority": wrong})
    assert refused.status_code == 400 and "x-narthex-priority" in refused.text
    accepted = await client.post(CHAT, json={"model": "single", "messages": HI}, headers={"x-narthex-priority": "-100"})
    assert accepted.status_code == 200
