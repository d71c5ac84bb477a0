"""Exactly-once recording under kill -9: a service under load whose workers, writer and Postgres are killed at seeded moments.

Postgres also ends all of its connections, as at a failover, and stays up. Callers send feedback before, with and after their requests.
"""

import asyncio
import contextlib
import os
import random
import signal
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx2

from app.store.postgres.database import connect
from tests.support.processes import service as services
from tests.support.processes.service import PROCESS_TIMEOUT_S, Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.terminate_connections import terminate_all_connections
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script

CLIENTS = 6
SEED = 20261121
VICTIMS = ("gateway", "writer", "postgres", "connections")


@dataclass
class Answered:
    """The answers that callers got to the end, and the feedback that was accepted, by id."""

    ids: list[str] = field(default_factory=list[str])
    feedback: list[str] = field(default_factory=list[str])
    matching: set[str] = field(default_factory=set[str])  # the feedback about something that was answered


async def assert_answers_are_recorded_exactly_once(kills_each: int) -> None:
    """Asserts exactly-once recording while gateway workers, the writer, Postgres and all connections to it are killed this often each."""
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
        [metrics.helpful]
        kind = "boolean"
        level = "inference"
    """)
    answered = Answered()
    answered_ids = answered.ids
    stop = asyncio.Event()
    clients = [asyncio.create_task(_run_client(service, random.Random(SEED + number), answered, stop)) for number in range(CLIENTS)]
    killed = await _kill_processes(service, random.Random(SEED), kills_each, answered)
    answered_during_kills = len(answered_ids)
    await wait_until(lambda: len(answered_ids) > answered_during_kills)
    await wait_until(lambda: len(answered.feedback) > 30 * kills_each and len(answered.matching) > 20 * kills_each)
    stop.set()
    await asyncio.gather(*clients)

    assert all(killed[victim] == kills_each for victim in VICTIMS)
    rows, contents = await _count_stored_ids(database_url(service), answered_ids)
    assert len(answered_ids) == len(set(answered_ids))
    assert {id: rows[id] for id in answered_ids} == dict.fromkeys(answered_ids, 1)
    assert {id: contents[id] for id in answered_ids} == dict.fromkeys(answered_ids, 1)
    stored, matched = await _read_feedback(database_url(service), answered)
    assert stored == dict.fromkeys(answered.feedback, 1)
    assert answered.matching <= matched
    assert not list((service.home / "quarantine").glob("*")) if (service.home / "quarantine").exists() else True
    await engine.stop()
    await asyncio.to_thread(services.stop, service)


async def _run_client(service: Service, chance: random.Random, answered: Answered, stop: asyncio.Event) -> None:
    """Sends chats, streamed or not, and notes the id of each answer that arrived to its last byte; with feedback on them."""
    async with service.client() as client:
        while not stop.is_set():
            body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x" * chance.randrange(1, 2000)}]}
            episode = f"conversation {chance.getrandbits(64):x}"
            headers = {"x-narthex-episode-id": episode}
            about: list[str] = []
            id: str | None = None
            if chance.random() < 0.5:  # before
                about.append(await _send_feedback(client, metric="comment", episode_id=episode, value="What will it say?"))
            with contextlib.suppress(httpx2.TransportError):
                if chance.random() < 0.5:
                    answer = await client.post("/v1/chat/completions", json=body, headers=headers)
                    if answer.status_code == 200:
                        id = answer.json()["id"]
                else:
                    async with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}, headers=headers) as answer:
                        begun = answer.headers.get("x-narthex-inference-id")
                        if begun is not None and chance.random() < 0.5:  # with it
                            about.append(await _send_feedback(client, metric="helpful", inference_id=begun, value=True))
                        async for line in answer.aiter_lines():
                            if line == "data: [DONE]":
                                id = begun
            if id is not None:
                answered.ids.append(id)
                about.append(await _send_feedback(client, metric="comment", inference_id=id, value="So that is it."))
                answered.matching.update(about)
            answered.feedback += about
            await asyncio.sleep(chance.random() * 0.02)


async def _send_feedback(client: httpx2.AsyncClient, **body: Any) -> str:
    """Sends feedback until it is accepted: a caller who got no answer sends it again with the same id. Returns the id."""
    body["id"] = str(uuid.uuid4())
    while True:
        with contextlib.suppress(httpx2.TransportError):
            sent = await client.post("/v1/feedback", json=body)
            if sent.status_code == 201:
                return sent.json()["id"]
            assert sent.status_code in (429, 503), sent.text
        await asyncio.sleep(0.02)


async def _kill_processes(service: Service, chance: random.Random, kills_each: int, answered: Answered) -> Counter[str]:
    """kill -9 at seeded moments, between which the service answers; a process that was killed before is waited for first."""
    killed: Counter[str] = Counter()
    last: dict[str, int] = {}
    order = list(VICTIMS) * kills_each
    chance.shuffle(order)
    for victim in order:
        before = len(answered.ids)
        await asyncio.sleep(0.1 + chance.random() * 0.6)
        await wait_until(lambda before=before: len(answered.ids) >= before + 3)
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


async def _read_feedback(database_url: str, answered: Answered) -> tuple[Counter[str], set[str]]:
    """How often each feedback is stored, and what is matched, once all is that must be."""
    stored: Counter[str] = Counter()
    matched: set[str] = set()

    async def is_all_there() -> bool:
        nonlocal stored, matched
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            connection = await connect(database_url)
            rows = await connection.fetch("SELECT feedback_id::text AS id, matched_at IS NOT NULL AS is_matched FROM feedback")
            await connection.close()
            stored = Counter(row["id"] for row in rows)
            matched = {row["id"] for row in rows if row["is_matched"]}
        return stored.keys() >= set(answered.feedback) and matched >= answered.matching

    with contextlib.suppress(AssertionError):  # the caller's comparison names the ids that are missing
        await wait_until(is_all_there, 120, interval_s=0.5)
    return stored, matched


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
