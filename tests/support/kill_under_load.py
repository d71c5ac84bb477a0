"""Promise 2, under kill -9: a service under load, of which workers, writer and Postgres are killed at seeded moments."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from typing import Any

import asyncpg
import httpx

from app.store.database import connect
from tests.support import service as services
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script
from tests.support.service import Service

CLIENTS = 6
SEED = 20261121


async def assert_answers_are_recorded_exactly_once(kills_each: int) -> None:
    """Whatever is killed meanwhile: gateway workers, the writer and Postgres, each so often."""
    service = services.start(workers=2, writer_batch_ms=30, spool_segment_bytes=200_000, spool_part_bytes=300)
    engine = ScriptedEngine()
    await engine.start()

    async def script(request: ReceivedRequest) -> None:
        await (stream_script(*HELLO)(request) if request.body.get("stream") else request.respond_completion("An answer. " * 20))

    engine.script = script
    service.apply(f"""
        [providers.engine]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.m]
        targets = [{{ provider = "engine", model = "m" }}]
    """)
    answered_ids: list[str] = []
    stop = asyncio.Event()
    clients = [asyncio.create_task(_run_client(service, random.Random(SEED + number), answered_ids, stop)) for number in range(CLIENTS)]
    killed = await _kill_processes(service, random.Random(SEED), kills_each)
    answered_at_the_end = len(answered_ids)
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*clients)

    assert all(killed[victim] == kills_each for victim in ("gateway", "writer", "postgres"))
    assert len(answered_ids) > answered_at_the_end > 10 * kills_each, "the service answered through it all, and does still"
    database_url = dict(line.split("=", 1) for line in (service.home / "run" / "servers").read_text().splitlines())["DATABASE_URL"]
    rows, contents = await _count_stored_ids(database_url, answered_ids)
    assert len(answered_ids) == len(set(answered_ids))
    assert {id: rows[id] for id in answered_ids} == dict.fromkeys(answered_ids, 1)
    assert {id: contents[id] for id in answered_ids} == dict.fromkeys(answered_ids, 1)
    assert not list((service.home / "quarantine").glob("*")) if (service.home / "quarantine").exists() else True
    await engine.stop()
    await asyncio.to_thread(services.stop, service)


async def _run_client(service: Service, chance: random.Random, answered_ids: list[str], stop: asyncio.Event) -> None:
    """Asks, whole and streamed, and writes down the id of each answer that came to its last byte."""
    async with service.client() as client:
        while not stop.is_set():
            body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x" * chance.randrange(1, 2000)}]}
            with contextlib.suppress(httpx.TransportError):
                if chance.random() < 0.5:
                    answer = await client.post("/v1/chat/completions", json=body)
                    if answer.status_code == 200:
                        answered_ids.append(answer.json()["id"])
                else:
                    async with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as answer:
                        async for line in answer.aiter_lines():
                            if line == "data: [DONE]":
                                answered_ids.append(answer.headers["x-narthex-inference-id"])
            await asyncio.sleep(chance.random() * 0.02)


async def _kill_processes(service: Service, chance: random.Random, kills_each: int) -> Counter[str]:
    """kill -9 at seeded moments; a victim that is not back yet is waited for."""
    killed: Counter[str] = Counter()
    last: dict[str, int] = {}
    order = ["gateway", "writer", "postgres"] * kills_each
    chance.shuffle(order)
    for victim in order:
        await asyncio.sleep(0.1 + chance.random() * 0.6)
        name = f"gateway-{chance.randrange(2)}" if victim == "gateway" else victim
        pid = await _wait_until_restarted(service, name, last.get(name))
        os.kill(pid, signal.SIGKILL)
        last[name] = pid
        killed[victim] += 1
    return killed


async def _wait_until_restarted(service: Service, name: str, previous_pid: int | None) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            pid = service.pid(name)
            if pid != previous_pid:
                os.kill(pid, 0)
                return pid
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} did not come back")


async def _count_stored_ids(database_url: str, wanted: list[str]) -> tuple[Counter[str], Counter[str]]:
    """How often each id is in each table, once all are there or half a minute has passed."""
    until = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            connection = await connect(database_url)
            rows = Counter(str(row["id"]) for row in await connection.fetch("SELECT id FROM inferences"))
            contents = Counter(str(row["id"]) for row in await connection.fetch("SELECT id FROM inference_content"))
            await connection.close()
            if all(id in rows and id in contents for id in wanted) or time.monotonic() > until:
                return rows, contents
        await asyncio.sleep(0.5)
