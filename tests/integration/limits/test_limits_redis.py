"""Limits on a real Valkey and a real Postgres: several workers, outages of Redis, and loss of its data."""

import asyncio
import contextlib
import os
import signal
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from prometheus_client import CollectorRegistry
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.callers import Caller
from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.gateway.limits import rebuilding, redis_epoch
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.limits import Limits
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from app.process.telemetry import Telemetry
from app.settings import Settings
from app.store.postgres.database import connect, create_database_engine
from app.store.redis.connection import COMMANDS, Connection
from app.store.usage.usage import UsedAmounts
from providers.canonical.errors import LimitExceeded, LimitUnsatisfiable, Unavailable
from providers.transport.write_batcher import WriteBatcher
from tests.support.processes.postgres import Postgres
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.processes.wait_until import wait_until

__all__ = ["valkey", "valkey_server"]

ADA = Caller("k1", "t1", "research", "full", prefix="nx-0123456789ab")
BOB = Caller("k2", "t1", "research", "full", prefix="nx-ba9876543210")
LEASE_S = 1.0
# Long, so that a busy machine is not taken for an outage: a Redis that was killed is noticed at once by its closed connection, and a
# Postgres that is away by one that is refused. A Postgres that is slow to say whether Redis had an epoch counts as a loss of its memory.
REDIS_TIMEOUT_S = POSTGRES_TIMEOUT_S = 30.0
TLS = Path(__file__).parents[2] / "support" / "tls"


class FakeLedger:
    """Recorded usage: `spent`, in whatever scope. By slots it is not read here: see test_limits_after_loss."""

    def __init__(self) -> None:
        self.spent = UsedAmounts()
        self.unavailable = False
        self.requested_scopes: list[Mapping[str, str]] = []

    async def used(self, scope: Mapping[str, str], since: datetime, snapshot: Snapshot) -> UsedAmounts:
        self.requested_scopes.append(scope)
        await asyncio.sleep(0.02)
        if self.unavailable:
            raise TimeoutError
        return self.spent

    async def is_stored(self) -> bool:
        return True

    async def workers(self) -> Collection[str]:
        return ()

    def open_usage_by_slot(self) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()


class Worker(Struct):
    limits: Limits
    telemetry: Telemetry
    ledger: FakeLedger
    database: AsyncEngine

    async def reserve(
        self, *, caller: Caller = ADA, model: str = "m", tags: Mapping[str, str] = {}, need: UsageEstimate | None = None
    ) -> Reservation:
        reservation = await self.limits.reserve(os.urandom(16).hex(), caller, model, tags, need or UsageEstimate())
        assert reservation is not None
        return reservation

    async def reserve_many(self, times: int, **how: Any) -> list[Reservation]:
        """The reservations of this many simultaneous requests. Asserts that all others are refused because a limit is reached."""
        done = await asyncio.gather(*(self.reserve(**how) for _ in range(times)), return_exceptions=True)
        assert all(isinstance(each, Reservation | LimitExceeded) for each in done), done
        return [each for each in done if isinstance(each, Reservation)]

    async def remaining(self, rule: str, caller: Caller = ADA) -> float | None:
        states = await self.limits.rule_states(caller, "m", {})
        return next(state.remaining for state in states if state.rule == rule)

    def metric(self, line: str) -> float:
        return next((float(each.split()[-1]) for each in self.telemetry.render().decode().splitlines() if each.startswith(line)), 0.0)


MakeWorker = Callable[..., Awaitable[Worker]]


@pytest.fixture(scope="module")
async def one_database(postgres: Postgres) -> str:
    await postgres.execute("CREATE DATABASE test_limits TEMPLATE migrated")
    return postgres.database_url("test_limits")


@pytest.fixture
async def make_worker(valkey: Valkey, one_database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[MakeWorker]:
    """Makes workers with the rules that are its arguments. `connects`: they reach Redis, which is waited for."""
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    for module in (redis_epoch, rebuilding):
        monkeypatch.setattr(module, "_POSTGRES_TIMEOUT_S", POSTGRES_TIMEOUT_S)
    workers: list[Worker] = []
    store = await connect(one_database)
    await store.execute("DELETE FROM limit_epochs")
    await store.close()

    async def make_worker(
        *rules: Limit,
        url: str | None = None,
        alive: int = 1,
        database_url: str | None = None,
        redis_timeout_s: float = REDIS_TIMEOUT_S,
        connects: bool = True,
    ) -> Worker:
        store = create_database_engine(database_url or one_database)
        telemetry, ledger = Telemetry(CollectorRegistry()), FakeLedger()
        counters = RedisCounters(url or valkey.url, redis_timeout_s, WriteBatcher())
        limits = Limits(Settings(limits_lease_s=LEASE_S), counters, store, ledger, telemetry, lambda: alive, str(len(workers)))
        limits.swap(limits.prepare(Snapshot(1, "", {}, {}, rules)))
        await limits.start()
        workers.append(Worker(limits, telemetry, ledger, store))
        if connects:  # start() waits for it only for a second
            await wait_until(lambda: limits.is_redis_up)
        return workers[-1]

    yield make_worker
    for worker in workers:
        await worker.limits.stop()
        await worker.database.dispose()


async def flush_redis(valkey: Valkey, *workers: Worker) -> None:
    """Empties Redis once the epoch of its data is known to all workers and recorded in Postgres."""
    for worker in workers:
        await wait_until(lambda worker=worker: has_recorded_epochs(worker, 1))
    valkey.flush()


async def has_recorded_epochs(worker: Worker, number: int) -> bool:
    async with worker.database.connect() as connection:
        return len((await connection.execute(text("SELECT 1 FROM limit_epochs"))).all()) >= number


async def test_request_matching_no_limit_needs_no_reservation(make_worker: MakeWorker):
    worker = await make_worker(Limit("bobs", {"key": BOB.prefix}, "requests", 1, "minute"))
    assert await worker.limits.reserve("a", ADA, "m", {}, UsageEstimate()) is None
    assert (await worker.reserve(caller=BOB)).headers[0] == (b"x-ratelimit-limit-requests", b"1")


async def test_workers_together_admit_exactly_the_limit(make_worker: MakeWorker):
    rules = (Limit("keys", {"key": "each"}, "requests", 50, "minute"), Limit("tokens", {"team": "each"}, "tokens", 10_000, "hour"))
    workers = [await make_worker(*rules) for _ in range(4)]
    taken = await asyncio.gather(*(worker.reserve_many(50, need=UsageEstimate(10, 10)) for worker in workers))
    assert sum(map(len, taken)) == 50
    assert await workers[0].remaining("tokens") == 10_000 - 50 * 20  # the refused took nothing
    for worker, reservations in zip(workers, taken, strict=True):
        for reservation in reservations:
            worker.limits.settle(reservation, ActualUsage(7, 6))
            worker.limits.settle(reservation, ActualUsage(7, 6))

    async def is_settled() -> bool:
        return await workers[0].remaining("tokens") == 10_000 - 50 * 13

    await wait_until(is_settled)
    assert [await worker.remaining("tokens") for worker in workers] == [10_000 - 50 * 13] * 4
    assert await workers[0].remaining("keys") == 0 and await workers[0].remaining("keys", BOB) == 50


async def test_broken_bucket_of_one_key_leaves_the_others_counted_by_redis(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(Limit("keys", {"key": "each"}, "requests", 5, "minute"))
    first = await worker.reserve()
    valkey.client.set(first.buckets[0].key, "no bucket")
    broken, whole = await asyncio.gather(worker.reserve(), worker.reserve(caller=BOB))
    assert worker.limits.is_redis_up  # the connection did not end, which would concern all
    assert broken.used_local_share and not whole.used_local_share
    valkey.client.client_kill_filter(_type="normal", skipme=True)
    await wait_until(lambda: not worker.limits.is_redis_up)

    async def is_caught_up() -> bool:  # what cannot be reported is not reported for ever
        return worker.limits.is_redis_up and worker.limits.pending_count == 0 and await worker.remaining("keys", BOB) == 4

    await wait_until(is_caught_up)
    for reservation in (first, broken, whole):
        worker.limits.settle(reservation, ActualUsage())
    await wait_until(lambda: worker.limits.pending_count == 0)
    assert await worker.remaining("keys", BOB) == 4


async def test_limit_refusal_names_rule_remaining_and_exact_retry_after(make_worker: MakeWorker):
    worker = await make_worker(
        Limit("per second", {"key": "each"}, "input_tokens", 10, "second"), Limit("much", {"all": "each"}, "requests", 99, "day")
    )
    reservation = await worker.reserve(need=UsageEstimate(8, 1))
    worker.limits.settle(reservation, ActualUsage(8, 1))
    with pytest.raises(LimitExceeded) as refused:
        await worker.reserve(need=UsageEstimate(3, 1))
    error = refused.value
    assert (error.status, error.code) == (429, "input_tokens_limit_reached") and error.retry_after_s is not None
    assert "'per second'" in error.message and "2 input tokens are left" in error.message
    expected_details = {"rule": "per second", "resource": "input_tokens", "amount": 10, "per": "second", "needed": 3, "remaining": 2}
    assert error.details is not None and dict(error.details).items() >= expected_details.items()
    assert error.details["retry_after_kind"] == "exact"
    headers = dict(error.headers)
    assert headers[b"x-ratelimit-remaining-input-tokens"] == b"2" and headers[b"x-ratelimit-remaining-tokens"] == b"2"
    assert headers[b"x-ratelimit-remaining-requests"] == b"98" and int(headers[b"retry-after-ms"]) == round(error.retry_after_s * 1000)
    await asyncio.sleep(error.retry_after_s)
    assert (await worker.reserve(need=UsageEstimate(3, 1))).headers
    assert worker.metric('narthex_limit_refusals_total{rule="per second"}') == 1


async def test_request_that_can_never_fit_or_has_no_price_gets_no_retry_after(make_worker: MakeWorker):
    worker = await make_worker(
        Limit("small", {"key": "each"}, "tokens", 10, "minute"), Limit("dear", {"team": "each"}, "cost_usd", 0.5, "month")
    )
    with pytest.raises(LimitUnsatisfiable) as never:
        await worker.reserve(need=UsageEstimate(4, 7))
    assert (never.value.status, never.value.code, never.value.retry_after_s) == (400, "limit_exceeds_amount", None)
    with pytest.raises(LimitUnsatisfiable) as unpriced:
        await worker.reserve(need=UsageEstimate(1, 1, None))
    assert unpriced.value.code == "no_price" and "'m'" in unpriced.value.message
    assert await worker.remaining("dear") == 0.5
    await worker.reserve(need=UsageEstimate(1, 1, 123_456))
    assert await worker.remaining("dear") == 0.376544


@pytest.mark.parametrize("output_tokens", [2**54, 2**63, 2**64, 10**30])
async def test_huge_token_counts_are_refused_without_integer_overflow(make_worker: MakeWorker, output_tokens: int):
    worker = await make_worker(
        Limit("tokens", {"key": "each"}, "tokens", 2**53, "hour"), Limit("tried", {"key": "each"}, "tokens", 9, "hour", dry_run=True)
    )
    with pytest.raises(LimitUnsatisfiable):
        await worker.reserve(need=UsageEstimate(1, output_tokens, output_tokens))
    assert (await worker.remaining("tokens"), await worker.remaining("tried")) == (2**53, 9)


async def test_request_cancelled_while_reserving_holds_nothing(make_worker: MakeWorker):
    worker = await make_worker(Limit("one", {"key": "each"}, "concurrency", 1), Limit("few", {"key": "each"}, "requests", 5, "hour"))
    for _ in range(20):
        task = asyncio.create_task(worker.reserve())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await wait_until(lambda: not worker.limits.pending_count)
    assert await worker.remaining("one") == 1 and await worker.remaining("few") == 5


async def test_dry_run_limit_refuses_nothing_and_counts_in_metrics(make_worker: MakeWorker):
    worker = await make_worker(
        Limit("trial", {"key": "each"}, "requests", 2, "minute", dry_run=True), Limit("x", {"key": "each"}, "requests", 9, "minute")
    )
    reservations = [await worker.reserve() for _ in range(5)]
    assert dict(reservations[-1].headers)[b"x-ratelimit-limit-requests"] == b"9"
    assert worker.metric('narthex_limit_dry_run_refusals_total{rule="trial"}') == 3


async def test_limit_preview_changes_nothing(make_worker: MakeWorker):
    worker = await make_worker(Limit("few", {"key": "each"}, "requests", 2, "hour"), Limit("run", {"key": "each"}, "concurrency", 2))
    await worker.reserve()
    for _ in range(3):
        preview = await worker.limits.preview(ADA, "m", {}, UsageEstimate())
        assert preview.refused_by is None and [state.remaining for state in preview.rules] == [1, 1]
    await worker.reserve()
    preview = await worker.limits.preview(ADA, "m", {}, UsageEstimate())
    assert preview.refused_by == "few" and preview.retry_after_s is not None and 3590 < preview.retry_after_s <= 3825
    assert [state.wait_s is not None and state.wait_s > 0 for state in preview.rules] == [True, True]


async def test_changed_limit_amount_keeps_the_count(make_worker: MakeWorker):
    worker = await make_worker(Limit("few", {"key": "each"}, "requests", 2, "hour"))
    assert len(await worker.reserve_many(5)) == 2
    worker.limits.swap(worker.limits.prepare(Snapshot(2, "", {}, {}, (Limit("few", {"key": "each"}, "requests", 3, "hour"),))))
    assert len(await worker.reserve_many(5)) == 1


async def test_fallback_extends_the_reservation_by_its_own_limits(make_worker: MakeWorker):
    each = Limit("each model", {"model": "each"}, "requests", 1, "hour")
    worker = await make_worker(
        each, Limit("all", {"key": "each"}, "requests", 9, "hour"), Limit("d", {"model": "dear"}, "tokens", 10, "hour")
    )
    reservation = await worker.reserve(model="first")
    again = await worker.limits.extend_reservation(reservation, "a", ADA, "second", {}, UsageEstimate())
    assert again is reservation and len(reservation.buckets) == 3
    other = await worker.reserve(model="third")
    with pytest.raises(LimitExceeded):
        await worker.limits.extend_reservation(other, "b", ADA, "second", {}, UsageEstimate())
    assert len(other.buckets) == 2
    worker.limits.cancel(reservation)
    with pytest.raises(LimitUnsatisfiable):
        await worker.limits.extend_reservation(other, "b", ADA, "dear", {}, UsageEstimate(5, 6))
    assert await worker.limits.extend_reservation(other, "b", ADA, "dear", {}, UsageEstimate(5, 5)) is other
    assert await worker.limits.extend_reservation(other, "b", ADA, "second", {}, UsageEstimate()) is other


async def test_tag_limits_apply_per_tag_value(make_worker: MakeWorker):
    worker = await make_worker(
        Limit("tenants", {"tag:tenant": "each"}, "requests", 1, "hour"), Limit("acme", {"tag:tenant": "acme"}, "requests", 5, "hour")
    )
    assert await worker.limits.reserve("a", ADA, "m", {"other": "x"}, UsageEstimate()) is None
    assert [len(await worker.reserve_many(3, tags={"tenant": tenant})) for tenant in ("acme", "a\0b", "")] == [1, 1, 1]


# --- concurrency slots


async def test_concurrency_slots_are_leased_and_freed_when_their_worker_dies(make_worker: MakeWorker):
    rule = Limit("two", {"key": "each"}, "concurrency", 2)
    worker, other = await make_worker(rule), await make_worker(rule)
    assert len(await worker.reserve_many(5)) == 2
    await asyncio.sleep(2 * LEASE_S)
    assert len(await other.reserve_many(5)) == 0
    await worker.limits.stop(0)  # it releases nothing, like a killed worker

    async def is_slot_free() -> bool:
        return bool(await other.reserve_many(1))

    await wait_until(is_slot_free)


async def test_redis_commands_are_written_before_the_response_of_the_same_batch():
    written: list[bytes] = []

    class RecordingTransport(asyncio.Transport):
        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(bytes(data))

    batcher, transport = WriteBatcher(), RecordingTransport()
    redis = Connection(batcher, COMMANDS, 1, lambda: None)
    redis.connection_made(transport)
    batcher.write(RecordingTransport(), b"a response")
    for command in (b"settle", b" and take"):
        redis.send(command, asyncio.get_running_loop().create_future())
    await wait_until(lambda: len(written) == 2)
    redis.connection_lost(None)
    assert written == [b"settle and take", b"a response"]


async def test_concurrency_never_exceeds_its_limit(make_worker: MakeWorker):
    workers = [await make_worker(Limit("three", {"team": "each"}, "concurrency", 3)) for _ in range(3)]
    running = most = done = 0

    async def one(worker: Worker, caller: Caller) -> None:
        nonlocal running, most, done
        for _ in range(40):
            try:
                reservation = await worker.reserve(caller=caller)
            except LimitExceeded as error:
                assert error.code == "concurrency_limit_reached" and error.details and error.details["retry_after_kind"] == "estimate"
                await asyncio.sleep(0.002)
                continue
            running, done = running + 1, done + 1
            most = max(most, running)
            await asyncio.sleep(0.004)
            running -= 1
            worker.limits.settle(reservation, ActualUsage())

    await asyncio.gather(*(one(worker, caller) for worker in workers for caller in (ADA, BOB, ADA)))
    assert most == 3 and done > 40
    await wait_until(lambda: not any(worker.limits.pending_count for worker in workers))
    assert await workers[0].remaining("three") == 3


# --- outages of Redis


async def test_settlements_during_a_redis_outage_are_applied_when_it_returns(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(Limit("t", {"key": "each"}, "tokens", 1000, "hour"), Limit("c", {"key": "each"}, "concurrency", 5))
    reservations = [await worker.reserve(need=UsageEstimate(50, 50)) for _ in range(4)]
    valkey.kill()
    for reservation in reservations:
        worker.limits.settle(reservation, ActualUsage(10, 5))
    await asyncio.sleep(0.1)
    await asyncio.to_thread(valkey.start)
    await wait_until(lambda: not worker.limits.pending_count)
    assert await worker.remaining("t") == 1000 - 4 * 15 and await worker.remaining("c") == 5


async def test_without_redis_each_worker_enforces_its_share_and_reports_it_later(make_worker: MakeWorker, valkey: Valkey):
    rules = (Limit("r", {"key": "each"}, "requests", 40, "hour"), Limit("c", {"key": "each"}, "concurrency", 30))
    worker = await make_worker(*rules, alive=4)
    taken = await worker.reserve_many(4)
    valkey.kill()
    await wait_until(lambda: not worker.limits.is_redis_up)
    local = await worker.reserve_many(20)
    # At the last reply of Redis 36 requests remained, of which a fourth is this worker's; its share of the slots is 7, and it holds 4.
    assert len(local) == 3 and all((b"x-narthex-limits", b"local") in reservation.headers for reservation in local)
    for reservation in (*taken, *local):
        worker.limits.settle(reservation, ActualUsage())
    assert all((b"x-narthex-limits", b"local") in reservation.headers for reservation in local), "headers are written at settlement"
    with pytest.raises(Unavailable, match="is not known at the moment"):
        await worker.limits.rule_states(ADA, None, {})
    assert len(await worker.reserve_many(20)) == 6
    assert worker.metric("narthex_redis_unavailable") == 1 and worker.metric("narthex_requests_admitted_locally_total") == 9
    await asyncio.to_thread(valkey.start)
    await wait_until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert await worker.remaining("r") == 40 - 4 - 9 and await worker.remaining("c") == 30 - 6
    assert worker.metric("narthex_redis_unavailable") == 0
    assert len(await worker.reserve_many(40)) == 24


async def test_on_outage_refuse_limit_refuses_at_once_without_redis(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(
        Limit("strict", {"key": "each"}, "requests", 9, "hour", on_outage="refuse"), Limit("b", {"key": "each"}, "requests", 9, "hour")
    )
    await worker.reserve()
    valkey.kill()
    await wait_until(lambda: not worker.limits.is_redis_up)
    began_s, taken_cpu_s = time.monotonic(), list[float]()
    for _ in range(10):
        began_cpu_s = time.process_time()
        for _ in range(20):
            with contextlib.suppress(Unavailable):
                raise AssertionError(await worker.reserve())
        taken_cpu_s.append((time.process_time() - began_cpu_s) / 20)
    assert min(taken_cpu_s) < 0.001
    assert time.monotonic() - began_s < REDIS_TIMEOUT_S, "no refusal waits for Redis"
    with pytest.raises(Unavailable, match="'strict'") as refused:
        await worker.reserve()
    assert refused.value.code == "limits_unavailable" and refused.value.retry_after_s
    await asyncio.to_thread(valkey.start)
    await wait_until(lambda: worker.limits.is_redis_up)
    assert await worker.remaining("strict") == 8


async def test_hanging_redis_delays_requests_briefly_and_counts_them_once(make_worker: MakeWorker, valkey: Valkey):
    rules = (Limit("r", {"key": "each"}, "requests", 40, "hour"), Limit("c", {"key": "each"}, "concurrency", 30))
    worker = await make_worker(*rules, redis_timeout_s=0.3)
    await worker.reserve()
    os.kill(valkey.pid, signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        reservations = await worker.reserve_many(5)
        assert len(reservations) == 5 and time.monotonic() - began_s < 10
        worker.limits.settle(reservations[0], ActualUsage())
        worker.limits.cancel(reservations[1])
        await asyncio.sleep(0.3)
    finally:
        os.kill(valkey.pid, signal.SIGCONT)
    await wait_until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert await worker.remaining("r") == 40 - 1 - 4 and await worker.remaining("c") == 30 - 1 - 3


async def test_full_redis_counts_as_an_outage_and_is_updated_later(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(Limit("ten", {"key": "each"}, "requests", 10, "hour"))
    await worker.reserve()
    valkey.client.config_set("maxmemory", 100_000)
    try:
        assert len(await worker.reserve_many(20)) == 9
        await wait_until(lambda: not worker.limits.is_redis_up)
    finally:
        valkey.client.config_set("maxmemory", 0)
    await wait_until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert await worker.reserve_many(5) == []


async def test_concurrency_slot_of_a_fallback_is_held_during_a_redis_outage(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(
        Limit("one at a time", {"model": "dear"}, "concurrency", 1), Limit("all", {"key": "each"}, "requests", 9, "hour")
    )
    reservation = await worker.reserve()
    assert await worker.limits.extend_reservation(reservation, "a", ADA, "dear", {}, UsageEstimate()) is reservation
    valkey.kill()
    await wait_until(lambda: not worker.limits.is_redis_up)
    assert await worker.reserve_many(2, model="dear") == []
    worker.limits.settle(reservation, ActualUsage())
    assert len(await worker.reserve_many(2, model="dear")) == 1


async def test_worker_starts_without_redis_and_connects_later(make_worker: MakeWorker, valkey: Valkey):
    valkey.stop()
    worker = await make_worker(Limit("r", {"key": "each"}, "requests", 4, "hour"), connects=False)
    assert len(await worker.reserve_many(9)) == 4
    await asyncio.to_thread(valkey.start)
    await wait_until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert len(await worker.reserve_many(9)) == 0


async def test_lua_scripts_lost_by_the_server_are_loaded_again(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(Limit("r", {"key": "each"}, "tokens", 40, "hour"))
    reservation = await worker.reserve(need=UsageEstimate(5, 5))
    valkey.client.script_flush()
    worker.limits.settle(reservation, ActualUsage(1, 1))
    await wait_until(lambda: not worker.limits.pending_count)
    valkey.client.script_flush()
    assert len(await worker.reserve_many(9, need=UsageEstimate(10, 9))) == 2


async def test_redis_url_carries_user_password_and_database_number(make_worker: MakeWorker, valkey: Valkey):
    valkey.client.execute_command("ACL", "SETUSER", "narthex", "on", ">s:cret", "+@all", "~nx:*")
    try:
        rule = Limit("r", {"key": "each"}, "requests", 4, "hour")
        worker = await make_worker(rule, url=valkey.url.replace("unix://", "unix://narthex:s%3Acret@") + "?db=3")
        assert len(await worker.reserve_many(9)) == 4 and not valkey.client.keys("nx:l:*")
        stranger = await make_worker(rule, url=valkey.url.replace("unix://", "unix://narthex:wrong@"), alive=2, connects=False)
        assert not stranger.limits.is_redis_up and len(await stranger.reserve_many(9)) == 2
    finally:
        valkey.client.execute_command("ACL", "DELUSER", "narthex")


async def test_rediss_url_uses_tls_and_verifies_the_certificate(make_worker: MakeWorker, valkey: Valkey):
    """A TLS server in front of the real one, which has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(valkey.url.removeprefix("unix://"))
        await asyncio.gather(pour(reader, to_server), pour(from_server, writer))

    async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
        sink.close()

    rule = Limit("r", {"key": "each"}, "requests", 4, "hour")
    async with await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        worker = await make_worker(rule, url=f"rediss://localhost:{port}?ssl_ca_certs={TLS / 'ca.pem'}")
        assert worker.limits.is_redis_up and len(await worker.reserve_many(9)) == 4
        stranger = await make_worker(rule, url=f"rediss://localhost:{port}", connects=False)  # it does not know the authority
        assert not stranger.limits.is_redis_up
        for each in (worker, stranger):
            await each.limits.stop()


# --- loss of data


async def test_new_redis_starts_empty_and_a_flushed_one_counts_as_fully_used(make_worker: MakeWorker, valkey: Valkey):
    rules = (Limit("s", {"key": "each"}, "requests", 4, "second"), Limit("c", {"key": "each"}, "concurrency", 2))
    worker, other = await make_worker(*rules), await make_worker(*rules)
    first, second = await asyncio.gather(worker.reserve(), other.reserve())
    await flush_redis(valkey, worker, other)
    flushed_s = time.monotonic()
    with pytest.raises(LimitExceeded) as refused:
        await worker.reserve()
    assert refused.value.retry_after_s is not None
    assert 1 - (time.monotonic() - flushed_s) - 0.2 < refused.value.retry_after_s <= 1.1
    await asyncio.sleep(refused.value.retry_after_s + 0.3)
    assert not await other.reserve_many(3)  # both slots are held by the requests that are still running
    worker.limits.settle(first, ActualUsage())
    await wait_until(lambda: not worker.limits.pending_count)
    assert len(await other.reserve_many(3)) == 1
    assert not second.settled


async def test_without_postgres_an_unknown_redis_epoch_counts_as_data_loss(make_worker: MakeWorker, valkey: Valkey):
    rule = Limit("s", {"key": "each"}, "requests", 4, "minute", after_loss="spent")
    worker = await make_worker(rule, database_url="postgresql://127.0.0.1:9/nowhere")
    with pytest.raises(LimitExceeded) as refused:
        await worker.reserve()
    assert refused.value.retry_after_s is not None and refused.value.retry_after_s > 59


async def test_requests_running_during_a_redis_flush_are_settled_exactly(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(Limit("s", {"key": "each"}, "tokens", 100, "second"), Limit("d", {"team": "each"}, "tokens", 1000, "day"))
    kept, ended = await worker.reserve(need=UsageEstimate(10, 10)), await worker.reserve(need=UsageEstimate(10, 10))
    await flush_redis(valkey, worker)
    worker.ledger.spent = UsedAmounts(3, 100, 50, 0)
    worker.limits.settle(ended, ActualUsage(10, 15))
    with pytest.raises(LimitExceeded):
        await worker.reserve(need=UsageEstimate(1, 1))
    await asyncio.sleep(LEASE_S + 0.01)
    assert await worker.remaining("d") == 1000 - 150 - 20
    worker.limits.settle(kept, ActualUsage(20, 5))
    await wait_until(lambda: not worker.limits.pending_count)
    assert await worker.remaining("d") == 1000 - 150 - 25


async def test_calendar_limits_are_seeded_from_recorded_usage_after_data_loss(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(
        Limit("m", {"team": "each", "key": "each"}, "cost_usd", 1, "month"), Limit("d", {"key": "each"}, "requests", 10, "day")
    )
    await worker.reserve(need=UsageEstimate(1, 1, 100))
    await flush_redis(valkey, worker)
    worker.ledger.spent = UsedAmounts(6, 0, 0, 400_000)
    assert not await worker.reserve_many(1, need=UsageEstimate(1, 1, 10))
    await asyncio.sleep(LEASE_S + 0.01)
    assert len(await worker.reserve_many(20, need=UsageEstimate(0, 0, 10))) == 3  # six are recorded, and one is running
    assert await worker.remaining("m") == 0.59987
    assert len(worker.ledger.requested_scopes) == 2 and {"team": "research", "key": "0123456789ab"} in worker.ledger.requested_scopes


async def test_calendar_limits_without_recorded_usage_follow_their_outage_policy(make_worker: MakeWorker, valkey: Valkey):
    lax = Limit("lax", {"model": "lax"}, "requests", 10, "day")
    strict = Limit("strict", {"model": "strict"}, "requests", 10, "day", on_outage="refuse")
    worker = await make_worker(lax, strict)
    await worker.reserve(model="lax")
    await flush_redis(valkey, worker)
    worker.ledger.unavailable = True
    assert not await worker.reserve_many(1, model="lax")
    await asyncio.sleep(LEASE_S + 0.01)
    assert len(await worker.reserve_many(20, model="lax")) == 9  # one is running
    with pytest.raises(Unavailable, match="'strict'"):
        await worker.reserve(model="strict")
    worker.ledger.unavailable, worker.ledger.spent = False, UsedAmounts(3)
    assert len(await worker.reserve_many(20, model="strict")) == 7
    with contextlib.suppress(LimitExceeded):
        await worker.reserve(model="lax")
    assert len(await worker.reserve_many(20, model="lax")) == 0


async def test_every_redis_epoch_is_recorded_in_postgres(make_worker: MakeWorker, valkey: Valkey):
    worker = await make_worker(Limit("s", {"key": "each"}, "requests", 4, "second"))
    await worker.reserve()
    for number in range(2):
        await flush_redis(valkey, worker)
        await worker.reserve_many(1)
        await wait_until(lambda number=number: has_recorded_epochs(worker, number + 2))
    async with worker.database.connect() as connection:
        rows = (await connection.execute(text("SELECT epoch, began_at FROM limit_epochs ORDER BY began_at"))).all()
    assert len(rows) == 3 and rows[0].began_at.year == 1970 and rows[0].epoch.startswith("0:")
    assert rows[2].epoch == valkey.client.get("nx:epoch").decode()
