"""Gateways killed, connections to Postgres ended, callers that retry with the same Idempotency-Key: one answer and one record each."""

import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import time
from collections import Counter, defaultdict
from typing import Any

import httpx2

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.terminate_connections import terminate_all_connections
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk

CHAT = "/v1/chat/completions"
CLIENTS = 8
KILLS = 12
SEED = 20261121


async def test_each_idempotency_key_is_answered_and_recorded_once_under_gateway_kills():
    service = services.start(workers=2, idempotency_lease_s=1, writer_batch_ms=30)
    engine = ScriptedEngine()
    await engine.start()
    try:
        service.apply(f"""
            [providers.p]
            adapter = "openai"
            base_url = "http://127.0.0.1:{engine.port}"
            [models.m]
            targets = [{{ provider = "p", model = "m" }}]
        """)
        engine.script = respond_with_random_text
        received: dict[str, set[bytes]] = defaultdict(set)
        stop_clients = asyncio.Event()
        clients = [
            asyncio.create_task(retrying_client(service, random.Random(SEED + number), received, stop_clients)) for number in range(CLIENTS)
        ]
        statuses = await asyncio.gather(kill_gateways(service, random.Random(SEED), stop_clients), *clients)
        counts = sum(statuses[1:], Counter[str]())
        assert len(received) > 3 * CLIENTS and all(len(answers) == 1 for answers in received.values()), "no key has two responses"
        assert counts["replayed"] > 0 and counts["broken off"] >= KILLS / 3, counts
        query = "SELECT tags->>'key' AS key, id::text AS id FROM inferences WHERE outcome = 'answered'"

        async def are_recorded() -> bool:
            return {row["key"] for row in await fetch(database_url(service), query)} >= received.keys()

        await wait_until(are_recorded)
        await asyncio.sleep(1)  # for records that should not exist
        assert Counter(row["key"] for row in await fetch(database_url(service), query)) == dict.fromkeys(received, 1)
    finally:
        await engine.stop()
        await asyncio.to_thread(services.stop, service)


async def respond_with_random_text(request: ReceivedRequest) -> None:
    """A stream of a fifth of a second, or one response after as long; no two are alike."""
    if not request.body.get("stream"):
        await asyncio.sleep(0.2)
        await request.respond_completion(secrets.token_hex(8))
        return
    request.begin_stream()
    for word in (secrets.token_hex(8), "on", "and", "on"):
        request.send_event(chunk({"content": word}))
        await asyncio.sleep(0.05)
    for body in HELLO[-2:]:
        request.send_event(body)
    request.send_event(b"[DONE]")
    request.end_stream()
    await request.writer.drain()


async def retrying_client(
    service: Service, rng: random.Random, received: dict[str, set[bytes]], stop_clients: asyncio.Event
) -> Counter[str]:
    """Sends requests with one key until it has two complete responses, then with the next."""
    seen: Counter[str] = Counter()
    while not stop_clients.is_set():
        key = secrets.token_hex(8)
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": key}], "stream": rng.random() < 0.5}
        headers = {"idempotency-key": key, "x-narthex-tags": json.dumps({"key": key})}
        complete_responses = 0
        until = time.monotonic() + 300
        while complete_responses < 2:
            assert time.monotonic() < until, seen
            answer = None
            with contextlib.suppress(httpx2.TransportError):
                async with service.client() as caller:
                    answer = await caller.post(CHAT, json=body, headers=headers)
            if answer is None:
                seen["broken off"] += 1
            elif answer.status_code == 200 and (not body["stream"] or answer.content.endswith(b"data: [DONE]\n\n")):
                received[key].add(answer.content)
                seen["replayed"] += "x-narthex-replayed" in answer.headers
                complete_responses += 1
            else:
                seen[str(answer.status_code)] += 1
            await asyncio.sleep(rng.random() * 0.05)
    return seen


async def kill_gateways(service: Service, rng: random.Random, stop_clients: asyncio.Event) -> Counter[str]:
    last: dict[str, int] = {}
    for _ in range(KILLS):
        await asyncio.sleep(0.3 + rng.random() * 0.7)
        name = f"gateway-{rng.randrange(2)}"
        async with asyncio.timeout(300):
            while (pid := _pid(service, name)) in (None, last.get(name)):
                await asyncio.sleep(0.02)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        last[name] = pid
        await wait_until(lambda: terminate_all_connections(database_url(service)))
    await asyncio.sleep(1)  # the callers finish what the last kill interrupted
    stop_clients.set()
    return Counter()


def _pid(service: Service, name: str) -> int | None:
    try:
        pid = service.pid(name)
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid
