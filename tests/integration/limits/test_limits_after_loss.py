"""Limits after Redis lost its memory, on a real Valkey, a real Postgres and a real spool: what is rebuilt, what refuses, who is told."""

import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.domain.callers import NO_KEY, Caller
from app.domain.exchange import ShadowRecord
from app.domain.experiments import ExperimentConfig
from app.domain.functions import FunctionConfig, VariantConfig
from app.domain.limits import Limit
from app.domain.routing import ModelConfig, ShadowConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.limits import Limits
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from app.process.telemetry import Telemetry
from app.recording.spool.spool import Spool
from app.recording.writer.ledger import SpoolAwareLedger
from app.settings import Settings
from app.store.configuration.validation.shadows import shadow_limits
from app.store.postgres.database import connect, create_database_engine
from app.store.teams import keys
from app.store.usage.by_slot import SlotUsage, open_usage_by_slot
from providers.canonical.chat import Usage
from providers.canonical.errors import LimitExceeded
from providers.transport.write_batcher import WriteBatcher
from tests.support.processes.postgres import Postgres
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import spool_exchange

__all__ = ["valkey", "valkey_server"]

LEASE_S = 1.0
HOUR_MS = 3_600_000
MODELS = {
    "m": ModelConfig((Target("p", "served-m"),), fallbacks=("spare",)),
    "spare": ModelConfig((Target("p", "served-spare"),)),
    "split": ModelConfig(experiment=ExperimentConfig({"m": 1.0, "spare": 1.0})),
}
FUNCTIONS = {"answer": FunctionConfig({"usual": VariantConfig("m"), "other": VariantConfig("spare")}, default="usual")}


class Worker(Struct):
    limits: Limits
    telemetry: Telemetry
    database: AsyncEngine
    spool: Spool

    async def use(self, caller: Caller, tokens: int, **recorded: Any) -> None:
        """A whole request: reserved, recorded and settled, as the request pipeline does."""
        id, received_us = uuid7.mint(), time.time_ns() // 1000
        reservation = await self.limits.reserve(id, caller, "m", {}, UsageEstimate(tokens, tokens))
        await asyncio.sleep(0.001)
        fields = {
            "key_id": caller.key_id,
            "team_id": caller.team_id,
            "model": "m",
            "charged_input": tokens,
            "charged_output": 0,
            **recorded,
        }
        spool_exchange(self.spool, b"", b"", id=id, received_us=received_us, duration_us=1000, **fields)
        assert reservation is not None
        self.limits.settle(reservation, ActualUsage(tokens, 0))

    async def is_admitted(self, caller: Caller) -> bool:
        try:
            reservation = await self.limits.reserve(os.urandom(16).hex(), caller, "m", {}, UsageEstimate(1, 0))
        except LimitExceeded:
            return False
        assert reservation is not None
        self.limits.cancel(reservation)
        return True

    async def remaining(self, rule: str, caller: Caller) -> float:
        return next(each.remaining for each in await self.limits.rule_states(caller, "m", {}) if each.rule == rule)

    def metric(self, name: str) -> float:
        return next(float(line.split()[-1]) for line in self.telemetry.render().decode().splitlines() if line.startswith(name))


class Installation(Struct):
    """A database with keys of two teams, and a machine with a spool. `writes`: whether the spool is written to the database."""

    settings: Settings
    callers: list[Caller]
    make_worker: Callable[..., Awaitable[Worker]]

    async def execute(self, *statement: Any) -> None:
        connection = await connect(self.settings.database_url)
        await connection.execute(*statement)
        await connection.close()

    async def lose_memory(self, valkey: Valkey) -> None:
        """Empties Redis once Postgres knows of the epoch that is lost: before that a loss looks like a first start."""

        async def has_recorded_epoch() -> bool:
            return bool(await fetch(self.settings.database_url, "SELECT 1 FROM limit_epochs"))

        await wait_until(has_recorded_epoch)
        valkey.flush()


@pytest.fixture
async def installation(
    valkey: Valkey, database: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Installation]:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    settings = Settings(home=tmp_path_factory.mktemp("home"), database_url=database, limits_lease_s=LEASE_S, drain_timeout_s=GENEROUS_S)
    for team in ("blue", "green"):
        await keys.create_key(database, team)
    rows = await fetch(
        database,
        "SELECT keys.id::text, keys.prefix, teams.id::text AS team_id, teams.name FROM keys JOIN teams ON teams.id = team_id ORDER BY name",
    )
    workers: list[Worker] = []

    async def make_worker(*rules: Limit, since: dict[str, int] | None = None, database_url: str = database) -> Worker:
        store, telemetry = create_database_engine(database_url), Telemetry(CollectorRegistry())
        counters = RedisCounters(valkey.url, 30.0, WriteBatcher())
        ledger = SpoolAwareLedger(settings.home, store, database_url)
        name = f"gateway-{len(workers)}"
        limits = Limits(settings, counters, store, ledger, telemetry, lambda: 1, name)
        limits.swap(limits.prepare(Snapshot(1, "", {}, MODELS, rules, limits_since=since or {})))
        worker = Worker(limits, telemetry, store, Spool(settings.home / "spool", settings))
        workers.append(worker)
        await limits.start()
        await wait_until(lambda: limits.is_redis_up)
        await installation.execute("INSERT INTO workers (id, version) VALUES ($1, 1)", name)
        return worker

    callers = [Caller(row["id"], row["team_id"], row["name"], "full", prefix=f"nx-{row['prefix']}") for row in rows]
    installation = Installation(settings, callers, make_worker)
    yield installation
    for worker in workers:
        await worker.limits.stop()
        worker.spool.close()
        await worker.database.dispose()


def waiting_for(worker: Worker) -> str:
    return "" if worker.limits.loss is None else worker.limits.loss.waiting_for or ""


async def test_windows_are_rebuilt_from_the_records_of_ended_requests(installation: Installation, valkey: Valkey):
    blue, green = installation.callers
    worker = await installation.make_worker(
        Limit("tokens", {"team": "each"}, "tokens", 100, "hour"),
        Limit("requests", {"key": "each", "model": "m"}, "requests", 9, "hour"),
        Limit("all", {"all": "each"}, "input_tokens", 1000, "hour"),
        Limit("of a fallback", {"model": "spare"}, "requests", 1, "hour"),
    )
    async with running_writer(installation.settings):
        for _ in range(4):
            await worker.use(blue, 10)
        await installation.lose_memory(valkey)
        assert not await worker.is_admitted(blue) and not await worker.is_admitted(green)
        await wait_until(lambda: worker.is_admitted(green))
        assert (await worker.remaining("tokens", blue), await worker.remaining("tokens", green)) == (60, 100)
        assert (await worker.remaining("requests", blue), await worker.remaining("requests", green)) == (5, 9)
        assert await worker.remaining("all", green) == 960
        for _ in range(5):
            await worker.use(blue, 1)
        assert not await worker.is_admitted(blue)
        await wait_until(lambda: worker.limits.loss is None)


async def test_refusal_after_a_loss_says_so_and_gives_an_estimate(installation: Installation, valkey: Valkey):
    blue, _ = installation.callers
    worker = await installation.make_worker(Limit("tokens", {"team": "each"}, "tokens", 100, "hour"))
    await worker.use(blue, 10)
    await installation.lose_memory(valkey)
    with pytest.raises(LimitExceeded) as refused:
        await worker.use(blue, 10)
    assert refused.value.details is not None and refused.value.details["cause"] == "counters_lost"
    assert refused.value.details["retry_after_kind"] == "estimate"
    assert refused.value.retry_after_s is not None and refused.value.retry_after_s < 10
    assert "has lost its memory" in refused.value.message


async def test_requests_running_during_the_loss_are_counted_and_their_settlement_is_exact(installation: Installation, valkey: Valkey):
    blue, _ = installation.callers
    rule = Limit("tokens", {"team": "each"}, "tokens", 100, "hour")
    workers = [await installation.make_worker(rule) for _ in range(2)]
    running = [await worker.limits.reserve(os.urandom(16).hex(), blue, "m", {}, UsageEstimate(10, 10)) for worker in workers]
    async with running_writer(installation.settings):
        await workers[0].use(blue, 5)
        await installation.lose_memory(valkey)
        await wait_until(lambda: workers[0].is_admitted(blue))
        assert await workers[0].remaining("tokens", blue) == 100 - 5 - 2 * 20
        for worker, reservation in zip(workers, running, strict=True):
            assert reservation is not None
            worker.limits.settle(reservation, ActualUsage(10, 1))
        await wait_until(lambda: not any(worker.limits.pending_count for worker in workers))
        assert await workers[0].remaining("tokens", blue) == 100 - 5 - 2 * 11


@pytest.mark.parametrize("per", ["hour", "day"])
async def test_each_after_loss_option_does_what_it_says(installation: Installation, valkey: Valkey, per: Any):
    blue, _ = installation.callers
    options: tuple[Any, ...] = ("rebuild", "spent", "empty")
    workers = {
        option: await installation.make_worker(Limit(option, {"team": "each"}, "requests", 5, per, after_loss=option)) for option in options
    }
    async with running_writer(installation.settings):
        for worker in workers.values():
            await worker.use(blue, 1)
        await installation.lose_memory(valkey)
        # All three workers record: three requests ended, whichever rule counted them.
        assert await workers["empty"].is_admitted(blue) and await workers["empty"].remaining("empty", blue) == 5
        assert not await workers["rebuild"].is_admitted(blue)
        await wait_until(lambda: workers["rebuild"].is_admitted(blue))
        assert await workers["rebuild"].remaining("rebuild", blue) == 2
        with pytest.raises(LimitExceeded) as refused:
            await workers["spent"].use(blue, 1)
    details = refused.value.details
    assert details is not None and (details["retry_after_kind"], details["cause"]) == ("exact", "counters_lost")
    if per == "hour":
        assert refused.value.retry_after_s is not None and 3500 < refused.value.retry_after_s <= 3601
    await wait_until(lambda: workers["spent"].limits.loss is not None)
    loss = workers["spent"].limits.loss
    assert loss is not None and loss.rules == 1 and loss.waiting_for is None
    assert workers["spent"].metric("narthex_limit_rules_refusing_after_loss") == 1
    await wait_until(lambda: workers["rebuild"].limits.loss is None and workers["empty"].limits.loss is None)
    emptied = Limit("spent", {"team": "each"}, "requests", 5, per, after_loss="empty")
    workers["spent"].limits.swap(workers["spent"].limits.prepare(Snapshot(2, "", {}, MODELS, (emptied,))))
    assert await workers["spent"].is_admitted(blue)
    await wait_until(lambda: workers["spent"].limits.loss is None)
    assert workers["spent"].metric("narthex_limit_rules_refusing_after_loss") == 0


async def test_rule_that_began_after_the_loss_is_not_treated_as_lost(installation: Installation, valkey: Valkey):
    blue, _ = installation.callers
    old = Limit("old", {"team": "each"}, "requests", 5, "hour", after_loss="spent")
    new = Limit("new", {"key": "each"}, "requests", 5, "hour", after_loss="spent")
    of_a_day = Limit("day", {"key": "each"}, "requests", 5, "day")
    worker = await installation.make_worker(old)
    async with running_writer(installation.settings):
        await worker.use(blue, 1)
    await installation.lose_memory(valkey)
    lost_ms = time.time() * 1000
    assert not await worker.is_admitted(blue)
    later = {"old": int(lost_ms) - 60_000, "new": int(lost_ms) + 60_000, "day": int(lost_ms) + 60_000}
    worker.limits.swap(worker.limits.prepare(Snapshot(2, "", {}, MODELS, (new, of_a_day), limits_since=later)))
    assert await worker.is_admitted(blue) and await worker.remaining("new", blue) == 5 and await worker.remaining("day", blue) == 5
    await wait_until(lambda: worker.limits.loss is None)
    worker.limits.swap(worker.limits.prepare(Snapshot(3, "", {}, MODELS, (new, old), limits_since=later)))
    assert not await worker.is_admitted(blue)


async def test_rebuilt_rule_counts_nothing_from_before_it_began(installation: Installation, valkey: Valkey):
    blue, _ = installation.callers
    rules = [Limit(per, {"team": "each"}, "requests", 9, per) for per in ("hour", "day")]
    now_ms = int(time.time() * 1000)
    worker = await installation.make_worker(*rules, since=dict.fromkeys(("hour", "day"), now_ms - 300_000))
    async with running_writer(installation.settings):
        await worker.use(blue, 1)
        for ago_s in (600, 600, 200):  # five minutes ago there were no rules
            at_us = (now_ms - ago_s * 1000) * 1000
            fields: dict[str, Any] = {"key_id": blue.key_id, "team_id": blue.team_id, "model": "m", "duration_us": 1000}
            spool_exchange(worker.spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, **fields)
        await installation.lose_memory(valkey)
        await worker.is_admitted(blue)
        await wait_until(lambda: worker.is_admitted(blue))
        assert await worker.remaining("hour", blue) == 7
        if time.gmtime(now_ms / 1000 - 400)[:3] == time.gmtime(now_ms / 1000)[:3]:  # a day that begins in between counts less
            assert await worker.remaining("day", blue) == 7


async def test_windows_stay_full_until_the_spools_of_all_workers_are_stored(installation: Installation, valkey: Valkey):
    blue, _ = installation.callers
    rule = Limit("tokens", {"team": "each"}, "tokens", 100, "hour")
    worker = await installation.make_worker(rule)
    await installation.execute("INSERT INTO workers (id, version) VALUES ('elsewhere', 1)")
    await worker.use(blue, 10)
    await installation.lose_memory(valkey)
    assert not await worker.is_admitted(blue)
    # No writer runs, so what has ended here is in no ledger; and the other machine has not reported.
    await wait_until(lambda: "records of 2 gateway processes" in waiting_for(worker))
    async with running_writer(installation.settings):
        await wait_until(lambda: "records of 1 gateway process " in waiting_for(worker))
        assert not await worker.is_admitted(blue)
        await installation.execute("DELETE FROM workers WHERE id = 'elsewhere'")
        await wait_until(lambda: worker.is_admitted(blue))
        assert await worker.remaining("tokens", blue) == 90


async def test_without_postgres_windows_stay_full_and_say_why(installation: Installation, postgres: Postgres, valkey: Valkey):
    blue, _ = installation.callers
    rule = Limit("tokens", {"team": "each"}, "tokens", 100, "hour")
    worker = await installation.make_worker(rule, database_url="postgresql://127.0.0.1:9/nowhere")
    assert not await worker.is_admitted(blue)  # a Redis without an epoch may be new: that cannot be known
    await wait_until(lambda: "PostgreSQL" in waiting_for(worker))
    assert not await worker.is_admitted(blue)


async def test_memory_lost_under_load_admits_no_more_than_the_amount_and_nearly_all_of_it(installation: Installation, valkey: Valkey):
    blue, green = installation.callers
    amount, concurrency = 400, 8
    rules = (
        Limit("team", {"team": "each"}, "requests", amount, "hour"),
        Limit("slow", {"all": "each"}, "requests", 2 * amount + 99, "hour"),
    )
    workers = [await installation.make_worker(*rules) for _ in range(2)]
    admitted = {"blue": 0, "green": 0}
    was_refused = False
    ended = asyncio.Event()

    async def send_requests(worker: Worker, caller: Caller) -> None:
        nonlocal was_refused
        while not ended.is_set():
            try:
                await worker.use(caller, 1)
                admitted[caller.team] += 1
                await asyncio.sleep(0.01)
            except LimitExceeded:
                was_refused = True
                await asyncio.sleep(0.05)

    async with running_writer(installation.settings):
        tasks = [asyncio.create_task(send_requests(worker, caller)) for worker in workers for caller in (blue, green) for _ in range(4)]
        await wait_until(lambda: min(admitted.values()) > amount // 4)
        await installation.lose_memory(valkey)
        before = dict(admitted)
        await wait_until(lambda: was_refused)
        await wait_until(lambda: all(admitted[team] > before[team] + concurrency for team in admitted))
        # Requests in flight at the loss may be counted twice: again while they ran, and by their records.
        await wait_until(lambda: min(admitted.values()) >= amount - 2 * concurrency)
        await asyncio.sleep(0.5)
        ended.set()
        await asyncio.gather(*tasks)
    assert max(admitted.values()) <= amount


async def test_redis_that_restarts_empty_is_rebuilt_with_what_was_admitted_without_it(installation: Installation, valkey: Valkey):
    blue, green = installation.callers
    worker = await installation.make_worker(Limit("team", {"team": "each"}, "requests", 50, "hour"))
    async with running_writer(installation.settings):
        for _ in range(10):
            await worker.use(blue, 1)
        await installation.lose_memory(valkey)  # what is on disk, too
        valkey.kill()
        await wait_until(lambda: not worker.limits.is_redis_up)
        for _ in range(5):
            await worker.use(blue, 1)
        await asyncio.to_thread(valkey.start)
        await wait_until(lambda: worker.limits.is_redis_up)
        await wait_until(lambda: worker.is_admitted(green))
        # The five are counted once: their records are read, so their worker does not report them.
        await wait_until(lambda: not worker.limits.pending_count)
        assert await worker.remaining("team", blue) == 50 - 15


async def test_loss_is_noticed_while_nobody_sends_requests(installation: Installation, valkey: Valkey):
    blue, _ = installation.callers
    worker = await installation.make_worker(Limit("team", {"team": "each"}, "requests", 50, "hour"))
    async with running_writer(installation.settings):
        await worker.use(blue, 1)
        await installation.lose_memory(valkey)
        await wait_until(lambda: bool(valkey.client.keys("nx:rebuilt:*")))
        assert await worker.is_admitted(blue) and await worker.remaining("team", blue) == 49


async def test_bounds_of_a_shadow_are_rebuilt_and_count_for_no_caller(installation: Installation, valkey: Valkey):
    """Its cost of the day, its requests of the minute and those in progress; its records name the team that pays, and no key."""
    blue, green = installation.callers
    config = ShadowConfig("m", green.team, 1.0, max_concurrent=2, per_minute=6, usd_per_day=1.0)
    bounds = shadow_limits(Snapshot(1, "", {}, {"fast": ModelConfig((Target("p", "x"),), shadow=config)}))
    worker = await installation.make_worker(*bounds, Limit("team", {"team": "each"}, "requests", 50, "day"))
    shadow = Caller(NO_KEY, green.team_id, green.team, "full", shadow="fast")

    async def reserve(microusd: int) -> tuple[str, Reservation]:
        id = uuid7.mint()
        reservation = await worker.limits.reserve(id, shadow, "m", {}, UsageEstimate(1, 1, microusd))
        assert reservation is not None
        return id, reservation

    async def answer_again(microusd: int) -> None:
        id, reservation = await reserve(microusd)
        link = {"origin": "shadow", "original_id": uuid7.mint(), "shadow": ShadowRecord("fast", blue.team_id, is_first_turn=True)}
        used = {"charged_input": 1, "charged_output": 0, "cost_microusd": microusd}
        spool_exchange(worker.spool, b"", b"", id=id, key_id=NO_KEY, team_id=green.team_id, model="m", duration_us=1000, **link, **used)
        worker.limits.settle(reservation, ActualUsage(1, 0, microusd))

    began_s = time.monotonic()
    async with running_writer(installation.settings):
        for _ in range(4):
            await answer_again(200_000)
        _, running = await reserve(100_000)
        await installation.lose_memory(valkey)
        with pytest.raises(LimitExceeded) as refused:  # until it is known what was used
            await reserve(1)
        assert refused.value.details is not None and refused.value.details["cause"] == "counters_lost"

        async def is_rebuilt() -> bool:  # full until then
            return all(each.remaining > 0 for each in await worker.limits.rule_states(shadow, "m", {}))

        await wait_until(is_rebuilt)
        assert await worker.remaining("shadow/fast/usd_per_day", shadow) == pytest.approx(0.1)
        assert await worker.remaining("shadow/fast/max_concurrent", shadow) == 1
        per_minute = await worker.remaining("shadow/fast/per_minute", shadow)
        assert per_minute == 1 or (time.monotonic() - began_s > 50 and per_minute > 1)
        assert (await worker.remaining("team", blue), await worker.remaining("team", green)) == (50, 45)
        with pytest.raises(LimitExceeded) as refused:
            await reserve(100_001)
        assert refused.value.details is not None and refused.value.details["rule"] == "shadow/fast/usd_per_day"
        worker.limits.settle(running, ActualUsage(1, 0, 100_000))


# --- what is read of the records


async def test_usage_by_slot_is_an_upper_bound_of_every_window(installation: Installation):
    """Compared with the requests themselves: whatever suffix of the slots is summed, it holds all that was still counted."""
    chance = random.Random(7)
    spool = Spool(installation.settings.home / "spool", installation.settings)
    before_ms = int(time.time() * 1000)
    exchanges: list[tuple[Caller, str, int, int, int]] = []
    for _ in range(300):
        caller, model = chance.choice(installation.callers), chance.choice(["m", "narthex::model_name::m", "spare"])
        received_ms = before_ms - chance.randrange(2 * HOUR_MS)
        duration_ms = min(chance.choice([1, 1000, 60_000, HOUR_MS]), before_ms - received_ms)
        tokens = chance.randrange(100)
        exchanges.append((caller, model.rpartition("::")[2], received_ms, received_ms + duration_ms, tokens))
        fields: dict[str, Any] = {"key_id": caller.key_id, "team_id": caller.team_id, "charged_input": tokens, "charged_output": 0}
        fields |= {"served_provider": "p", "served_model": "served-spare" if model == "spare" else "served-m"}
        at_us = received_ms * 1000
        spool_exchange(
            spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, duration_us=duration_ms * 1000, model=model,
            tags={"tenant": caller.team}, **fields,
        )  # fmt: skip
    spool.close()
    await drain(installation.settings)
    width = HOUR_MS / 16
    now_slot = int(before_ms // width)
    for dimensions in ((), ("team",), ("key", "model"), ("tag:tenant", "team"), ("tag:other",)):
        found = {subject: slots async for subject, slots in read_usage(installation, dimensions, before_ms)}
        expected: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
        for caller, model, received_ms, ended_ms, tokens in exchanges:
            values = {"team": caller.team, "key": caller.prefix.removeprefix("nx-"), "model": model, "tag:tenant": caller.team}
            if all(dimension in values for dimension in dimensions):
                expected.setdefault(tuple(values[dimension] for dimension in dimensions), []).append((received_ms, ended_ms, tokens))
        assert found.keys() == expected.keys()
        for subject, slots in found.items():
            for oldest in range(now_slot - 16, now_slot + 1):
                counted = [each for each in slots if each.slot >= oldest]
                # What was admitted, or settled beyond its estimate, in these slots; and at most what ended in them, with the clock margin.
                least = [tokens for _, ended_ms, tokens in expected[subject] if ended_ms // width >= oldest]
                most = [tokens for _, ended_ms, tokens in expected[subject] if (ended_ms + 5_000) // width >= oldest]
                assert sum(least) <= sum(each.input for each in counted) <= sum(most)
                assert len(least) <= sum(each.requests for each in counted) <= len(most)


async def test_request_counts_under_each_model_whose_limits_it_may_have_reserved(installation: Installation):
    spool = Spool(installation.settings.home / "spool", installation.settings)
    before_ms = int(time.time() * 1000)
    blue, _ = installation.callers
    served: Sequence[dict[str, Any]] = (
        {"model": "m", "served_model": "served-m"},
        {"model": "m", "served_model": "served-spare"},  # the fallback, whose limits were reserved on the way
        {"model": "m", "served_provider": None, "served_model": None, "outcome": "failed", "status": 502},
        {"model": "spare", "served_model": "served-spare"},
        {"model": "answer", "function": "answer", "variant": "usual", "served_model": "served-m"},
        {"model": "narthex::function_name::answer", "function": "answer", "variant": "usual", "served_model": "served-spare"},
        {"model": "answer", "function": "answer", "variant": "other", "served_model": "served-spare"},
        {"model": "split", "variant": "m", "served_model": "served-m"},
        {"model": "split", "variant": "spare", "served_provider": None, "served_model": None, "outcome": "failed", "status": 502},
    )
    for number, fields in zip(itertools.count(), served):
        at_us = (before_ms - 10_000 + number) * 1000
        fields = {"key_id": blue.key_id, "team_id": blue.team_id, "served_provider": "p", **fields}
        spool_exchange(spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, duration_us=1000, **fields)
    spool.close()
    await drain(installation.settings)
    counts = {subject: sum(each.requests for each in slots) async for subject, slots in read_usage(installation, ("model",), before_ms)}
    assert counts == {("m",): 7, ("spare",): 6, ("split",): 2}


async def test_calendar_limit_of_a_model_counts_again_what_functions_arms_and_fallbacks_used_of_it(
    installation: Installation, valkey: Valkey
):
    blue, green = installation.callers
    snapshot = Snapshot(1, "", {}, MODELS, functions=FUNCTIONS)
    rules = [
        Limit(f"{model} {per}", {"team": "each", "model": model}, "tokens", 1000, per)
        for model in ("m", "spare")
        for per in ("day", "month")
    ]
    worker = await installation.make_worker(*rules)
    worker.limits.swap(worker.limits.prepare(msgspec.structs.replace(snapshot, limits=tuple(rules))))
    # Each uses another number of tokens, so that the sums say which of them were counted.
    served: Sequence[dict[str, Any]] = (
        {"model": "m", "served_model": "served-m", "charged_input": 1},
        {"model": "answer", "function": "answer", "variant": "usual", "served_model": "served-m", "charged_input": 2},
        {
            "model": "tensorzero::function_name::answer",
            "function": "answer",
            "variant": "other",
            "served_model": "served-spare",
            "charged_input": 4,
        },
        {"model": "split", "variant": "m", "served_model": "served-m", "charged_input": 8},
        {"model": "split", "variant": "spare", "served_model": "served-spare", "charged_input": 16},
        {"model": "narthex::model_name::m", "served_model": "served-spare", "charged_input": 32},
    )
    async with running_writer(installation.settings):
        await worker.use(blue, 0)  # Redis has an epoch, which can be lost
        for fields in served:
            usage = Usage(fields["charged_input"], 0)
            at_us = time.time_ns() // 1000
            recorded = {
                "key_id": blue.key_id,
                "team_id": blue.team_id,
                "served_provider": "p",
                "charged_output": 0,
                "usage": usage,
                **fields,
            }
            spool_exchange(worker.spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, duration_us=1000, **recorded)
        await installation.lose_memory(valkey)
        await wait_until(lambda: worker.is_admitted(blue))
        for per in ("day", "month"):
            assert await worker.remaining(f"m {per}", blue) == 1000 - (1 + 2 + 8 + 32)
            states = await worker.limits.rule_states(blue, "spare", {})
            assert next(each.remaining for each in states if each.rule == f"spare {per}") == 1000 - (4 + 16 + 32)
            assert await worker.remaining(f"m {per}", green) == 1000


async def test_use_of_a_model_by_other_names_is_never_counted_too_low(installation: Installation):
    """Full hours come from sums and parts of hours from the records, with and without a tag: each is at least what is charged."""
    chance = random.Random(11)
    snapshot = Snapshot(1, "", {}, MODELS, functions=FUNCTIONS)
    spool = Spool(installation.settings.home / "spool", installation.settings)
    since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    expected: dict[tuple[str, str], int] = {}
    names: Sequence[tuple[str, dict[str, Any]]] = (
        ("m", {"model": "answer", "function": "answer", "variant": "usual"}),
        ("spare", {"model": "answer", "function": "answer", "variant": "other"}),
        ("spare", {"model": "split", "variant": "spare"}),
        ("m", {"model": "m"}),
    )
    for number in range(200):
        caller = chance.choice(installation.callers)
        model, fields = chance.choice(names)
        input = chance.randrange(100)
        reported = Usage() if chance.random() < 0.2 else Usage(input, 0)
        at_us = int(since.timestamp() * 1e6) + number * 50_000_000
        recorded: dict[str, Any] = {**fields, "key_id": caller.key_id, "team_id": caller.team_id, "tags": {"tenant": "x"}}
        recorded |= {"served_provider": "p", "served_model": f"served-{model}"}
        recorded |= {"usage": reported, "charged_input": input, "charged_output": 0}
        spool_exchange(spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, duration_us=1000, **recorded)
        expected[model, caller.team] = expected.get((model, caller.team), 0) + input
    spool.close()
    await drain(installation.settings)
    engine = create_database_engine(installation.settings.database_url)
    ledger = SpoolAwareLedger(installation.settings.home, engine, installation.settings.database_url)
    of_function = await ledger.used({"function": "answer"}, since, snapshot)
    async with open_usage_by_slot(installation.settings.database_url) as usage:
        assert usage is not None
        before_ms = int(time.time() * 1000)
        found = {subject: slots async for subject, slots in usage.read(("function",), 24 * HOUR_MS, before_ms, snapshot)}
    assert found.keys() == {("answer",)} and of_function.requests == sum(each.requests for each in found["answer",]) > 0
    for (model, team), least in expected.items():
        scope = {"model": model, "team": team}
        exact = await ledger.used({**scope, "tag:tenant": "x"}, since, snapshot)
        summed = await ledger.used(scope, since, snapshot)
        partly = await ledger.used(scope, since - timedelta(minutes=30), snapshot)
        assert exact.input == least and least <= summed.input <= least * 1.5 and summed == partly
        assert (exact.requests, exact.cost_microusd) == (summed.requests, summed.cost_microusd)
    await engine.dispose()


async def read_usage(
    installation: Installation, dimensions: Sequence[str], before_ms: int
) -> AsyncGenerator[tuple[tuple[str, ...], list[SlotUsage]]]:
    async with open_usage_by_slot(installation.settings.database_url) as usage:
        assert usage is not None
        async for subject, slots in usage.read(dimensions, HOUR_MS, before_ms, Snapshot(1, "", {}, MODELS, functions=FUNCTIONS)):
            yield subject, slots


async def test_one_process_reads_the_usage_at_a_time(installation: Installation):
    url = installation.settings.database_url
    async with open_usage_by_slot(url) as first, open_usage_by_slot(url) as second:
        assert first is not None and second is None
    async with open_usage_by_slot(url) as third:
        assert third is not None
