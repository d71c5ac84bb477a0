"""A load test of limits: many callers send, disconnect and return while processes are killed; an engine counts what reaches it."""

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from msgspec import Struct

from app.store.postgres.database import create_database_engine as database_engine
from app.store.usage import usage
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import connections, database_url
from tests.support.processes.terminate_connections import terminate_all_connections
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, completion

CHAT = "/v1/chat/completions"
LEASE_S = 2.0
# How long the engine may take to notice a disconnect: the gateway releases the reservation at once.
_NOTICED_S = 0.03


class LimitAmounts(Struct, frozen=True):
    """Amounts: requests of a key a second, requests of a team an hour, tokens of a model a day, and requests running at once."""

    second: int
    hour: int
    day_tokens: int
    running: int

    def toml(self, port: int) -> str:
        def rule(name: str, scope: str, resource: str, amount: int, per: str | None) -> str:
            period = f'per = "{per}"' if per else ""
            fields = f'name = "{name}"\nscope = {{ {scope} }}\nresource = "{resource}"\namount = {amount}\n{period}\non_outage = "refuse"\n'
            return f"[[limits]]\n{fields}"

        engine = f'[providers.engine]\nadapter = "openai"\nbase_url = "http://127.0.0.1:{port}"\n'
        model = '[models.m]\ntargets = [{ provider = "engine", model = "m" }]\n'
        return f"{engine}{model}" + "".join(
            (
                rule("second", 'key = "each"', "requests", self.second, "second"),
                rule("hour", 'team = "each"', "requests", self.hour, "hour"),
                rule("day", 'model = "each"', "tokens", self.day_tokens, "day"),
                rule("running", 'all = "each"', "concurrency", self.running, None),
            )
        )


class AdmittedRequest(Struct):
    """A request that reached the engine. It was admitted after `sent_s` and before `received_s`."""

    sent_s: float
    received_s: float


class ConcurrencyEngine(ScriptedEngine):
    """Takes a while, reports random usage, and counts how many ran at once: `max_running`, without disconnected ones."""

    def __init__(self) -> None:
        super().__init__()
        self.admitted: list[AdmittedRequest] = []
        self.running: set[int] = set()
        self.max_running = 0
        self.script = self._serve
        self._chance = random.Random(7)

    async def _serve(self, request: ReceivedRequest) -> None:
        now = time.time()
        self.admitted.append(AdmittedRequest(float(request.body["metadata"]["sent"]), now))
        self.running.add(id(request))
        measuring = asyncio.create_task(self._measure_concurrency()) if len(self.running) > self.max_running else None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._chance.uniform(0.01, 0.3)):
                    await request.disconnected.wait()
            if not request.disconnected.is_set():
                response = completion()
                response["usage"] = {"prompt_tokens": self._chance.randint(1, 20), "completion_tokens": self._chance.randint(1, 60)}
                response["usage"]["total_tokens"] = sum(response["usage"].values())
                self.running.discard(id(request))  # once it has answered, another request may run instead
                await request.respond(200, json.dumps(response).encode())
        finally:
            self.running.discard(id(request))
            if measuring is not None:
                await measuring

    async def _measure_concurrency(self) -> None:
        """How many really ran together: those still running once earlier disconnects have been noticed."""
        running = set(self.running)
        await asyncio.sleep(_NOTICED_S)
        self.max_running = max(self.max_running, len(running & self.running))


class OutcomeCounts(Struct):
    """How requests ended for their callers."""

    answered: int = 0
    refused: int = 0
    unavailable: int = 0
    disconnected: int = 0
    broken: int = 0


class LoadTest:
    def __init__(self, service: Service, engine: ConcurrencyEngine, rules: LimitAmounts) -> None:
        self.service = service
        self.engine = engine
        self.rules = rules
        self.outcomes = OutcomeCounts()
        self._chance = random.Random(11)

    async def run(self, clients: int, seconds: float, kills: Sequence[str]) -> None:
        """Sends load, and kills the processes of these names at even times; "connections" stands for all those to Postgres."""
        until = time.monotonic() + seconds
        limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
        async with self.service.client(limits=limits) as client:
            callers = [asyncio.create_task(self._run_client(client, until)) for _ in range(clients)]
            for name in kills:
                await asyncio.sleep(seconds / (len(kills) + 1))
                if name == "connections":
                    assert await terminate_all_connections(database_url(self.service))
                else:
                    os.kill(self.service.pid(name), signal.SIGKILL)
            await asyncio.gather(*callers)

    async def _run_client(self, client: httpx2.AsyncClient, until: float) -> None:
        while time.monotonic() < until:
            work = asyncio.create_task(send_chat(client))
            if self._chance.random() < 0.15:
                await asyncio.sleep(self._chance.uniform(0.002, 0.05))
                work.cancel()
            try:
                answer = await work
            except asyncio.CancelledError:
                self.outcomes.disconnected += 1
                continue
            except httpx2.TransportError:
                self.outcomes.broken += 1
                await asyncio.sleep(0.05)
                continue
            match answer.status_code:
                case 200:
                    self.outcomes.answered += 1
                case 429:
                    self.outcomes.refused += 1
                    assert int(answer.headers["retry-after"]) >= 1 and answer.json()["error"]["code"].endswith("_limit_reached")
                    await asyncio.sleep(self._chance.uniform(0.005, 0.1))
                case status:
                    assert status == 503, answer.text
                    self.outcomes.unavailable += 1
                    await asyncio.sleep(0.02)

    def check_rate_windows(self) -> None:
        """No second admitted more than it may, as far as visible from outside: requests both sent and received within it."""
        admitted = sorted(self.engine.admitted, key=lambda each: each.received_s)
        assert len(admitted) <= self.rules.hour
        for first in admitted:
            within = sum(first.sent_s <= each.sent_s and each.received_s <= first.sent_s + 1 for each in admitted)
            assert within <= self.rules.second
        assert 0 < self.engine.max_running <= self.rules.running

    async def check_concurrency_released(self) -> None:
        """Leases end: everything may run again, although killed workers released nothing."""

        async def is_released() -> bool:
            return await self.remaining("running") >= self.rules.running

        await wait_until(is_released, LEASE_S + 30)

    async def check_recorded_usage(self, *, workers_killed: bool) -> None:
        """Limits count what is recorded. `workers_killed`: what ran in them stays charged as estimated."""
        await self._wait_until_recorded()
        store = database_engine(database_url(self.service))
        async with store.connect() as connection:
            recorded = await usage.read_used(connection, {"model": "m"}, datetime.now(UTC) - timedelta(hours=2))
        await store.dispose()
        counted = self.rules.day_tokens - await self.remaining("day")
        assert recorded.input + recorded.output > 0
        if workers_killed:
            assert counted >= recorded.input + recorded.output
        else:
            assert counted == recorded.input + recorded.output

    async def check_retry_after(self) -> None:
        """A refused caller who returns after its Retry-After is admitted."""
        refused = 0
        async with connections(self.service, 24) as callers:
            for _ in range(2):
                for _ in range(10):
                    answers = await asyncio.gather(*(send_chat(caller) for caller in callers))
                    refusals = [answer for answer in answers if answer.status_code == 429]
                    if refusals:
                        break
                else:
                    raise AssertionError("nothing was refused")
                refused += 1
                assert {answer.json()["error"]["details"]["rule"] for answer in refusals} <= {"second", "running"}
                await asyncio.sleep(int(refusals[0].headers["retry-after"]))
                again = await send_chat(callers[0])
                assert again.status_code == 200, again.text
        assert refused == 2

    async def remaining(self, rule: str) -> float:
        async with self.service.client() as client:
            for _ in range(100):
                with contextlib.suppress(httpx2.TransportError):
                    answer = await client.get("/v1/limits", params={"model": "m"})
                    if answer.status_code == 200:
                        return next(each["remaining"] for each in answer.json()["data"] if each["rule"] == rule)
                await asyncio.sleep(0.05)
        raise AssertionError("no worker reports what remains")

    async def _wait_until_recorded(self) -> None:
        store = database_engine(database_url(self.service))
        last = -1
        for _ in range(100):
            async with store.connect() as connection:
                now = (await usage.read_used(connection, {}, datetime.now(UTC) - timedelta(hours=2))).requests
            if now == last:
                break
            last = now
            await asyncio.sleep(0.5)
        await store.dispose()


async def send_chat(client: httpx2.AsyncClient) -> httpx2.Response:
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello!"}],
        "max_tokens": 50,
        "metadata": {"sent": str(time.time())},
    }
    return await client.post(CHAT, json=body)


async def start_load_test(rules: LimitAmounts, workers: int) -> LoadTest:
    engine = ConcurrencyEngine()
    await engine.start()
    service = services.start(workers=workers, limits_lease_s=LEASE_S, redis_timeout_s=1)
    service.apply(rules.toml(engine.port))
    return LoadTest(service, engine, rules)
