"""Requests to a fleet of scripted engines, and what they must not leave behind."""

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
WORDS = ["One", " two", " three", " four"]
PLACES = 50


def fleet_configuration(engines: Sequence[ScriptedEngine]) -> str:
    """Models `fleet`, and `counted`, which has PLACES at its target and as many slots of a limit."""
    addresses = ", ".join(f'"http://127.0.0.1:{engine.port}"' for engine in engines)
    return f"""
        [providers.fleet]
        adapter = "vllm"
        base_url = "http://127.0.0.1:{engines[0].port}"
        options = {{ version = "0.32.0" }}
        [models]
        fleet = {{ targets = [{{ provider = "fleet", model = "m", endpoints = [{addresses}] }}] }}
        counted = {{ targets = [{{ provider = "fleet", model = "counted", endpoints = [{addresses}], max_concurrency = {PLACES} }}] }}
        [[limits]]
        name = "slots"
        scope = {{ model = "counted" }}
        resource = "concurrency"
        amount = {PLACES}
    """


async def answer(request: ReceivedRequest) -> None:
    if "/api/chat" in request.path:
        frame = {"model": "m", "message": {"role": "assistant", "content": "".join(WORDS)}, "done": True, "done_reason": "stop"}
        await request.respond(200, json.dumps(frame).encode())
    elif request.body.get("stream"):
        request.begin_stream()
        for word in WORDS:
            request.send_event(chunk({"content": word}))
        request.send_event(chunk({}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()
    else:
        await request.respond_completion("".join(WORDS))


async def send_request(client: httpx2.AsyncClient, model: str = "fleet", *, stream: bool) -> str:
    """The text of one response. Fails for anything but a complete one."""
    body = {"model": model, "messages": HI, "stream": stream}
    if not stream:
        response = await client.post(CHAT, json=body)
        assert response.status_code == 200, response.text
        return response.json()["choices"][0]["message"]["content"]
    async with client.stream("POST", CHAT, json=body) as response:
        lines = [line async for line in response.aiter_lines() if line]
    assert response.status_code == 200 and lines[-1] == "data: [DONE]", lines
    frames = [json.loads(line[6:]) for line in lines[:-1]]
    return "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames if frame["choices"])


async def send_many(service: Service, count: int, model: str = "fleet") -> None:
    async with service.client(limits=httpx2.Limits(max_connections=20)) as client:
        texts = await asyncio.gather(*(send_request(client, model, stream=number % 2 == 0) for number in range(count)))
    assert texts == ["".join(WORDS)] * count


async def in_flight(service: Service) -> int:
    async with service.admin_client() as admin:
        return sum(each["in_flight"] for each in (await admin.get("/admin/v1/fleet")).json()["data"])


async def wait_until_idle(service: Service) -> None:
    async def is_idle() -> bool:
        return await in_flight(service) == 0

    await wait_until(is_idle)


async def drop_streams(service: Service, fleet: list[ScriptedEngine], count: int, model: str = "counted") -> None:
    """Opens streams, 100 at a time, and drops each at random: before the first token, midway, or at its end."""
    rng = random.Random(2)

    async def write_slowly(request: ReceivedRequest) -> None:
        await asyncio.sleep(rng.random() * 0.02)
        request.begin_stream()
        for word in WORDS * 3:
            if request.disconnected.is_set():
                return
            request.send_event(chunk({"content": word}))
            await asyncio.sleep(rng.random() * 0.02)
        request.send_event(chunk({}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    for engine in fleet:
        engine.script = write_slowly
    turns = asyncio.Semaphore(100)

    async def open_and_drop(client: httpx2.AsyncClient) -> None:
        async with turns:
            try:
                async with asyncio.timeout(rng.random() * 0.3), client.stream("POST", CHAT, json=body) as response:
                    async for _ in response.aiter_raw():
                        pass
            except (TimeoutError, httpx2.TransportError):
                pass

    body = {"model": model, "messages": HI, "stream": True}
    async with service.client(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20)) as client:
        await asyncio.gather(*(open_and_drop(client) for _ in range(count)))


async def assert_nothing_is_left(service: Service, fleet: list[ScriptedEngine], sockets_before: int) -> None:
    """No request, no load, no place, no slot, no connection."""
    await wait_until_idle(service)

    async def is_empty() -> bool:
        async with service.admin_client() as admin:
            metrics = (await admin.get("/metrics")).text
        values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line and not line.startswith("#"))
        busy = [value for name, value in values.items() if name.startswith("narthex_endpoint_connections{") and 'state="busy"' in name]
        assert busy
        return float(values["narthex_requests_in_flight"]) <= 1 and not any(map(float, busy))

    await wait_until(is_empty)
    await wait_until(lambda: socket_count(service) <= sockets_before + 3 * len(fleet))
    # All 50 places and slots are free again.
    opened = asyncio.Event()

    async def answer_together(request: ReceivedRequest) -> None:
        await opened.wait()
        await answer(request)

    for engine in fleet:
        engine.requests.clear()
        engine.script = answer_together
    async with service.client(limits=httpx2.Limits(max_connections=PLACES)) as client:
        tasks = [asyncio.create_task(send_request(client, "counted", stream=True)) for _ in range(PLACES)]
        await wait_until(lambda: sum(len(engine.requests) for engine in fleet) == PLACES)
        opened.set()
        assert await asyncio.gather(*tasks) == ["".join(WORDS)] * PLACES


def socket_count(service: Service) -> int:
    count = 0
    for each in Path(f"/proc/{service.pid('gateway-0')}/fd").iterdir():
        # The service may close a descriptor between the listing and the reading.
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(each).startswith("socket:")
    return count
