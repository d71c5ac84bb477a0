"""Gateways killed by `kill -9` under callers who retry with the same Idempotency-Key: each key is answered, and recorded so, once."""

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

import httpx

from tests.stories import service as services
from tests.stories.looking import database_url
from tests.stories.scripted import HELLO, Asked, ScriptedEngine, chunk
from tests.stories.service import Service
from tests.stories.writing import fetch

CHAT = "/v1/chat/completions"
CLIENTS = 8
KILLS = 12
SEED = 20261121


async def test_killed_gateways_answer_each_key_once():
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
        engine.script = script
        had: dict[str, set[bytes]] = defaultdict(set)
        enough = asyncio.Event()
        clients = [asyncio.create_task(client(service, random.Random(SEED + number), had, enough)) for number in range(CLIENTS)]
        statuses = await asyncio.gather(kill(service, random.Random(SEED), enough), *clients)
        told = sum(statuses[1:], Counter[str]())
        assert len(had) > 3 * CLIENTS and all(len(answers) == 1 for answers in had.values()), "nobody was told two answers"
        assert told["replayed"] > 0 and told["broken off"] >= KILLS / 3, told
        await asyncio.sleep(2)
        rows = await fetch(database_url(service), "SELECT tags->>'key' AS key, id::text AS id FROM inferences WHERE outcome = 'answered'")
        assert Counter(row["key"] for row in rows) == dict.fromkeys(had, 1)
    finally:
        await engine.stop()
        await asyncio.to_thread(services.stop, service)


async def script(asked: Asked) -> None:
    """A stream of a fifth of a second, or a whole answer after as long; no two are alike."""
    if not asked.body.get("stream"):
        await asyncio.sleep(0.2)
        await asked.whole(secrets.token_hex(8))
        return
    asked.begin_stream()
    for word in (secrets.token_hex(8), "on", "and", "on"):
        asked.frame(chunk({"content": word}))
        await asyncio.sleep(0.05)
    for body in HELLO[-2:]:
        asked.frame(body)
    asked.frame(b"[DONE]")
    asked.end_stream()
    await asked.writer.drain()


async def client(service: Service, chance: random.Random, had: dict[str, set[bytes]], enough: asyncio.Event) -> Counter[str]:
    """Asks under one key until it has the answer in full, then once more for good measure, then under the next."""
    seen: Counter[str] = Counter()
    while not enough.is_set():
        key = secrets.token_hex(8)
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": key}], "stream": chance.random() < 0.5}
        headers = {"idempotency-key": key, "x-narthex-tags": json.dumps({"key": key})}
        times = 0
        until = time.monotonic() + 60
        while times < 2:
            assert time.monotonic() < until, seen
            answer = None
            with contextlib.suppress(httpx.TransportError):
                async with service.client() as caller:
                    answer = await caller.post(CHAT, json=body, headers=headers)
            if answer is None:
                seen["broken off"] += 1
            elif answer.status_code == 200 and (not body["stream"] or answer.content.endswith(b"data: [DONE]\n\n")):
                had[key].add(answer.content)
                seen["replayed"] += "x-narthex-replayed" in answer.headers
                times += 1
            else:
                seen[str(answer.status_code)] += 1
            await asyncio.sleep(chance.random() * 0.05)
    return seen


async def kill(service: Service, chance: random.Random, enough: asyncio.Event) -> Counter[str]:
    last: dict[str, int] = {}
    for _ in range(KILLS):
        await asyncio.sleep(0.3 + chance.random() * 0.7)
        name = f"gateway-{chance.randrange(2)}"
        async with asyncio.timeout(60):
            while (pid := _pid(service, name)) in (None, last.get(name)):
                await asyncio.sleep(0.02)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        last[name] = pid
    await asyncio.sleep(1)
    enough.set()
    return Counter()


def _pid(service: Service, name: str) -> int | None:
    try:
        pid = service.pid(name)
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid
