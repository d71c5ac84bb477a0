"""A hostile budget: callers, engines and kills that try to make it leak. In the end the ledger, Redis and the records agree to the cent.

Three workers, keys of one team, and at once: streams that callers cancel, engines that die or report wrong usage, retries with an
Idempotency-Key, a killed worker, a killed Redis, and a Redis that comes back without its memory.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import msgspec
import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.gateway.limits.rules import Rule, RuleTable
from app.settings import Settings
from app.store.configuration.limit_rows import read_limits
from app.store.postgres.database import connect, create_database_engine
from app.supervisor.machine import server_addresses
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion

# httpx2 leaves a socket to the garbage collector if it is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CHAT = "/v1/chat/completions"
CLIENTS_PER_KEY, KEYS = 5, 3
INPUT_USD, OUTPUT_USD = 100, 1000  # for a million tokens, which is in millionths of a dollar for one
MAX_TOKENS = 20
BUDGET_MICROUSD = 3_000_000
SEED = 20261128


class HostileEngine(ScriptedEngine):
    """An engine that has served `served_microusd` by its own reports.

    `excess_microusd` is what it reported beyond the `max_tokens` that were reserved.
    """

    def __init__(self) -> None:
        super().__init__()
        self.served_microusd = self.excess_microusd = 0
        self.script = self._serve
        self._chance = random.Random(SEED)

    async def _serve(self, request: ReceivedRequest) -> None:
        chance = self._chance
        await asyncio.sleep(chance.uniform(0.0, 0.03))
        fate = chance.random()
        if fate < 0.08:
            request.reset_connection()
            return
        if fate < 0.16:
            await request.respond(500, b'{"error": {"message": "broken"}}')
            return
        usage = self._usage()
        if not request.body.get("stream"):
            if usage is not None or chance.random() < 0.5:
                self._count(usage)
            await request.respond(200, json.dumps({**completion("An answer."), "model": "m", "usage": usage}).encode())
            return
        request.begin_stream()
        for _ in range(5):
            request.send_event({**chunk({"content": "word "}), "model": "m"})
            await asyncio.sleep(0.005)
            if request.disconnected.is_set():
                return
            if chance.random() < 0.03:
                request.reset_connection()
                return
        self._count(usage)
        request.send_event({**chunk({}, "stop"), "model": "m"})
        if usage is not None:
            request.send_event({**chunk(usage=usage), "model": "m"})
        request.send_event(b"[DONE]")
        request.end_stream()

    def _usage(self) -> dict[str, int] | None:
        """Returns usage that is right, or None, or usage of far more output than was allowed."""
        fate = self._chance.random()
        if fate < 0.1:
            return None
        output = self._chance.randint(1, MAX_TOKENS) if fate < 0.9 else 3 * MAX_TOKENS
        return {"prompt_tokens": 10, "completion_tokens": output, "total_tokens": 10 + output}

    def _count(self, usage: dict[str, int] | None) -> None:
        if usage is not None:
            self.served_microusd += usage["prompt_tokens"] * INPUT_USD + usage["completion_tokens"] * OUTPUT_USD
            self.excess_microusd += max(0, usage["completion_tokens"] - MAX_TOKENS) * OUTPUT_USD


class Callers:
    """Callers that send until stop(). `seen_microusd` holds by inference what each answered request said that it cost."""

    def __init__(self, service: Service, keys: list[str]) -> None:
        self.seen_microusd: dict[str, int] = {}
        self.refused = self.disconnected = self.replayed = 0
        self.refused_in_a_row = 0
        self._service = service
        self._chance = random.Random(SEED + 1)
        self._keys = [key for key in keys for _ in range(CLIENTS_PER_KEY)]
        self._running = asyncio.Event()
        self._stopping = False
        self._busy = 0

    async def run(self) -> None:
        self._running.set()
        await asyncio.gather(*(self._call_on(key) for key in self._keys))

    async def pause(self) -> None:
        """Holds back further requests and waits until none is in progress."""
        self._running.clear()
        await wait_until(lambda: not self._busy)

    def resume(self) -> None:
        self._running.set()

    def stop(self) -> None:
        self._stopping = True
        self._running.set()

    async def _call_on(self, key: str) -> None:
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
        async with self._service.client(headers={"authorization": f"Bearer {key}"}, limits=limits) as client:
            while not self._stopping:
                await self._running.wait()
                self._busy += 1
                try:
                    with contextlib.suppress(httpx2.TransportError):
                        await self._call(client)
                finally:
                    self._busy -= 1
                await asyncio.sleep(0.005)

    async def _call(self, client: httpx2.AsyncClient) -> None:
        fate = self._chance.random()
        body = {"model": "hostile", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": MAX_TOKENS}
        tags = {"x-narthex-tags": '{"tenant": "acme"}'}
        if fate < 0.4:
            await self._stream(client, {**body, "stream": True}, tags, cancels=fate < 0.2)
        elif fate < 0.6:
            headers = {**tags, "idempotency-key": uuid.uuid4().hex}
            for _ in range(3):
                self._note(await client.post(CHAT, json=body, headers=headers))
        else:
            self._note(await client.post(CHAT, json=body, headers=tags))

    async def _stream(self, client: httpx2.AsyncClient, body: Any, headers: dict[str, str], *, cancels: bool) -> None:
        async with client.stream("POST", CHAT, json=body, headers={**headers, "x-narthex-cost": "true"}) as response:
            if response.status_code != 200:
                await response.aread()
                return self._note(response)
            events: list[Any] = []
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    events.append(json.loads(line[6:]))
                if cancels and len(events) > 1:
                    self.disconnected += 1
                    return None
        costs = [event["usage"]["narthex_cost_usd"] for event in events if event.get("usage")]
        if costs:
            self.seen_microusd[response.headers["x-narthex-inference-id"]] = round(costs[-1] * 1_000_000)
        return None

    def _note(self, response: httpx2.Response) -> None:
        if response.status_code == 200:
            self.refused_in_a_row = 0
            if "x-narthex-replayed" in response.headers:
                self.replayed += 1
            elif "x-narthex-cost-usd" in response.headers:
                cost_usd = float(response.headers["x-narthex-cost-usd"])
                self.seen_microusd[response.headers["x-narthex-inference-id"]] = round(cost_usd * 1_000_000)
        elif response.status_code == 429:
            assert response.json()["error"]["code"] == "cost_limit_reached", response.text
            self.refused += 1
            self.refused_in_a_row += 1


class Books:
    """The counts for the rules of budgets, in three places: Redis, stored inferences and the usage table."""

    def __init__(self, service: Service, rules: dict[str, Rule], subjects: dict[str, tuple[str, ...]]) -> None:
        self._service, self._rules, self._subjects = service, rules, subjects

    async def redis_microusd(self, name: str) -> int:
        settings = server_addresses.resolve(Settings(home=self._service.home))
        redis: Any = Redis.from_url(settings.redis_url)  # pyright: ignore[reportUnknownMemberType]
        try:
            raw = await redis.get(self._rules[name].key(self._subjects[name]))
            return 0 if raw is None else int(msgspec.msgpack.decode(raw)[1])
        finally:
            await redis.aclose()

    async def costs(self) -> dict[str, int]:
        """Returns the cost in microdollars of each stored inference, by its id."""
        connection = await connect(database_url(self._service))
        try:
            rows = await connection.fetch("SELECT id::text, coalesce(cost_microusd, 0) AS cost FROM inferences WHERE model = 'hostile'")
            return {row["id"]: int(row["cost"]) for row in rows}
        finally:
            await connection.close()

    async def ledger_microusd(self) -> int:
        connection = await connect(database_url(self._service))
        try:
            return int(await connection.fetchval("SELECT coalesce(sum(cost_microusd), 0) FROM usage WHERE model = 'hostile'"))
        finally:
            await connection.close()


@pytest.fixture
async def engine() -> AsyncGenerator[HostileEngine]:
    engine = HostileEngine()
    await engine.start()
    yield engine
    await engine.stop()


async def read_rules(service: Service) -> dict[str, Rule]:
    engine = create_database_engine(database_url(service))
    try:
        async with engine.connect() as connection:
            stored = await read_limits(connection)
        return dict(RuleTable([each.limit for each in stored], {each.limit.name: each.since_ms or 0 for each in stored}).by_name)
    finally:
        await engine.dispose()


async def lose_redis_memory(service: Service) -> None:
    """Empties Redis, as a restart without its file would."""
    settings = server_addresses.resolve(Settings(home=service.home))
    redis: Any = Redis.from_url(settings.redis_url)  # pyright: ignore[reportUnknownMemberType]

    async def has_lost() -> bool:
        with contextlib.suppress(RedisConnectionError):  # the killed one is being started again
            await redis.flushall()
            return True
        return False

    await wait_until(has_lost)
    await redis.aclose()


async def test_ledger_redis_and_records_agree_after_everything_that_can_happen_to_a_budget(engine: HostileEngine):
    service = services.start(
        workers=3, limits_lease_s=1, redis_timeout_s=1, writer_batch_ms=30, retries=1, breaker_failures=1_000_000, drain_timeout_s=5
    )
    try:
        await _attack(service, engine)
    finally:
        await asyncio.to_thread(services.stop, service)


async def _attack(service: Service, engine: HostileEngine) -> None:
    rule = 'resource = "cost_usd"\nper = "month"\non_outage = "refuse"\nafter_loss = "rebuild"'
    service.apply(f"""
        [providers.engine]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.hostile]
        targets = [{{ provider = "engine", model = "m" }}]
        [[prices]]
        provider = "engine"
        model = "m"
        input = {INPUT_USD}
        output = {OUTPUT_USD}
        [[limits]]
        name = "team"
        scope = {{ team = "each" }}
        amount = {BUDGET_MICROUSD / 1e6}
        {rule}
        [[limits]]
        name = "tenant"
        scope = {{ "tag:tenant" = "each" }}
        amount = {BUDGET_MICROUSD / 1e6 + 100}
        {rule}
        [[limits]]
        name = "key"
        scope = {{ key = "each" }}
        amount = {BUDGET_MICROUSD / 1e6 + 100}
        {rule}
    """)
    keys = [service.run("keys", "create", "--team", "hostile", "--quiet").stdout.strip() for _ in range(KEYS)]
    books = Books(service, await read_rules(service), {"team": ("hostile",), "tenant": ("acme",)})
    callers = Callers(service, keys)
    running = asyncio.create_task(callers.run())

    def has_served(share: float) -> bool:
        return engine.served_microusd >= share * BUDGET_MICROUSD

    # Callers are charged for about twice what the engine counts, as it does not count streams that break off.
    await wait_until(lambda: has_served(0.06))
    os.kill(service.pid("gateway-1"), signal.SIGKILL)
    await wait_until(lambda: has_served(0.12))
    os.kill(service.pid("valkey"), signal.SIGKILL)
    await wait_until(lambda: has_served(0.2))
    # What the killed worker had reserved stays counted until Redis counts again from the records. Of requests that are in progress at a
    # loss some count twice (docs/configuration.md): so that all must agree, there are none.
    await callers.pause()
    await lose_redis_memory(service)
    callers.resume()
    served_before = engine.served_microusd
    await wait_until(lambda: engine.served_microusd > served_before)  # all are refused until Redis has counted again
    callers.refused_in_a_row = 0
    await wait_until(lambda: callers.refused_in_a_row >= 200)
    callers.stop()
    await running

    # Exact, in three places, and in what callers saw.
    costs: dict[str, int] = {}
    totals: dict[str, int] = {}

    async def agree() -> bool:
        nonlocal costs, totals
        costs = await books.costs()
        totals = {"records": sum(costs.values()), "ledger": await books.ledger_microusd()}
        totals |= {name: await books.redis_microusd(name) for name in ("team", "tenant")}
        return len(set(totals.values())) == 1 and callers.seen_microusd.keys() <= costs.keys()

    with contextlib.suppress(AssertionError):  # the comparison below says what differs
        await wait_until(agree, 30)
    assert totals == dict.fromkeys(totals, totals["records"])
    assert {id: costs.get(id) for id in callers.seen_microusd} == callers.seen_microusd
    seen = sum(callers.seen_microusd.values())
    assert seen + sum(cost for id, cost in costs.items() if id not in callers.seen_microusd) == totals["ledger"]
    # Nothing beyond the budget but what the engine reported beyond what it was permitted to write.
    assert 0.9 * BUDGET_MICROUSD < totals["ledger"] <= BUDGET_MICROUSD + engine.excess_microusd
    assert callers.refused and callers.disconnected and callers.replayed and engine.excess_microusd
