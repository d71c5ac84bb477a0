"""Exactly-once recording under kill -9: a service under load whose workers, writer and Postgres are killed at seeded moments.

Postgres also ends all of its connections, as at a failover, and stays up.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from typing import Any

import asyncpg
import httpx

from app.store.database import connect
from tests.support import service as services
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script
from tests.support.service import PROCESS_TIMEOUT_S, Service
from tests.support.service_inspection import database_url
from tests.support.terminate_connections import terminate_all_connections
from tests.support.wait_until import wait_until

CLIENTS = 6
SEED = 20261121
VICTIMS = ("gateway", "writer", "postgres", "connections")


async def assert_answers_are_recorded_exactly_once(kills_each: int) -> None:
    """Although gateway workers, the writer, Postgres and all connections to it are each killed this often meanwhile."""
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
    answered_during_kills = len(answered_ids)
    assert answered_during_kills > 10 * kills_each, "the service answers throughout"
    await wait_until(lambda: len(answered_ids) > answered_during_kills)
    stop.set()
    await asyncio.gather(*clients)

    assert all(killed[victim] == kills_each for victim in VICTIMS)
    rows, contents = await _count_stored_ids(database_url(service), answered_ids)
    assert len(answered_ids) == len(set(answered_ids))
    assert {id: rows[id] for id in answered_ids} == dict.fromkeys(answered_ids, 1)
    assert {id: contents[id] for id in answered_ids} == dict.fromkeys(answered_ids, 1)
    assert not list((service.home / "quarantine").glob("*")) if (service.home / "quarantine").exists() else True
    await engine.stop()
    await asyncio.to_thread(services.stop, service)


async def _run_client(service: Service, chance: random.Random, answered_ids: list[str], stop: asyncio.Event) -> None:
    """Sends chats, streamed or not, and notes the id of each answer that arrived to its last byte."""
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
    """kill -9 at seeded moments; a process that was killed before is waited for first."""
    killed: Counter[str] = Counter()
    last: dict[str, int] = {}
    order = list(VICTIMS) * kills_each
    chance.shuffle(order)
    for victim in order:
        await asyncio.sleep(0.1 + chance.random() * 0.6)
        if victim == "connections":
            await wait_until(lambda: terminate_all_connections(database_url(service)))  # Postgres may be starting
            killed[victim] += 1
            continue
        name = f"gateway-{chance.randrange(2)}" if victim == "gateway" else victim
        pid = await _wait_until_restarted(service, name, last.get(name))
        os.kill(pid, signal.SIGKILL)
        last[name] = pid
        killed[victim] += 1
    return killed


async def _wait_until_restarted(service: Service, name: str, previous_pid: int | None) -> int:
    pid: int | None = None

    def has_restarted() -> bool:
        nonlocal pid
        with contextlib.suppress(OSError, ValueError):
            pid = service.pid(name)
            os.kill(pid, 0)
            return pid != previous_pid
        return False

    await wait_until(has_restarted, PROCESS_TIMEOUT_S)
    assert pid is not None
    return pid


async def _count_stored_ids(database_url: str, wanted: list[str]) -> tuple[Counter[str], Counter[str]]:
    """How often each id is in each table, once all are there."""
    rows: Counter[str] = Counter()
    contents: Counter[str] = Counter()

    async def are_stored() -> bool:
        nonlocal rows, contents
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            connection = await connect(database_url)
            rows = Counter(str(row["id"]) for row in await connection.fetch("SELECT id FROM inferences"))
            contents = Counter(str(row["id"]) for row in await connection.fetch("SELECT id FROM inference_content"))
            await connection.close()
        return all(id in rows and id in contents for id in wanted)

    with contextlib.suppress(AssertionError):  # the caller's comparison names the ids that are missing
        await wait_until(are_stored, 120, interval_s=0.5)
    return rows, contents
