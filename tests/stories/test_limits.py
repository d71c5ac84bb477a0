"""Limits on a real Valkey and a real Postgres: several workers, outages, losses of memory."""

import asyncio
import contextlib
import os
import signal
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from prometheus_client import CollectorRegistry
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller, Limit, Snapshot
from app.gateway.limits.limits import Limits
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from app.settings import Settings
from app.store.counters.connection import Connection
from app.store.counters.counters import RedisCounters
from app.store.database import connect, create_database_engine
from app.store.usage import UsedAmounts
from app.telemetry import Telemetry
from providers.canonical.errors import LimitExceeded, LimitUnsatisfiable, Unavailable
from providers.transport.write_batcher import WriteBatcher
from tests.stories.postgres import Postgres, postgres
from tests.stories.valkey import Valkey, valkey, valkey_server

__all__ = ["postgres", "valkey", "valkey_server"]

ADA = Caller("k1", "t1", "research", "full", prefix="nx-0123456789ab")
BOB = Caller("k2", "t1", "research", "full", prefix="nx-ba9876543210")
LEASE_S = 0.4
TLS = Path(__file__).parents[1] / "laws" / "tls"


class Books:
    """A ledger that says what it is told to say."""

    def __init__(self) -> None:
        self.spent = UsedAmounts()
        self.away = False
        self.asked: list[Mapping[str, str]] = []

    async def used(self, scope: Mapping[str, str], since: datetime) -> UsedAmounts:
        self.asked.append(scope)
        await asyncio.sleep(0.02)
        if self.away:
            raise TimeoutError
        return self.spent


class Worker(Struct):
    limits: Limits
    telemetry: Telemetry
    books: Books
    database: AsyncEngine

    async def take(
        self, *, caller: Caller = ADA, model: str = "m", tags: Mapping[str, str] = {}, need: UsageEstimate | None = None
    ) -> Reservation:
        ticket = await self.limits.reserve(os.urandom(16).hex(), caller, model, tags, need or UsageEstimate())
        assert ticket is not None
        return ticket

    async def admitted(self, times: int, **how: Any) -> list[Reservation]:
        """Those of so many requests at once that got a ticket; the others must have been told that a limit is reached."""
        done = await asyncio.gather(*(self.take(**how) for _ in range(times)), return_exceptions=True)
        assert all(isinstance(each, Reservation | LimitExceeded) for each in done), done
        return [each for each in done if isinstance(each, Reservation)]

    async def left(self, rule: str, caller: Caller = ADA) -> float | None:
        states = await self.limits.rule_states(caller, "m", {})
        return next(state.remaining for state in states if state.rule == rule)

    def metric(self, line: str) -> float:
        return next((float(each.split()[-1]) for each in self.telemetry.render().decode().splitlines() if each.startswith(line)), 0.0)


Make = Callable[..., Awaitable[Worker]]


@pytest.fixture(scope="module")
async def one_database(postgres: Postgres) -> str:
    await postgres.execute("CREATE DATABASE test_limits TEMPLATE migrated")
    return postgres.database_url("test_limits")


@pytest.fixture
async def make(valkey: Valkey, one_database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Make]:
    """Makes workers; rules are the arguments."""
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    workers: list[Worker] = []
    store = await connect(one_database)
    await store.execute("DELETE FROM limit_epochs")
    await store.close()

    async def make(*rules: Limit, url: str | None = None, alive: int = 1, database_url: str | None = None) -> Worker:
        store = create_database_engine(database_url or one_database)
        telemetry, books = Telemetry(CollectorRegistry()), Books()
        counters = RedisCounters(url or valkey.url, 0.15, WriteBatcher())
        limits = Limits(Settings(limits_lease_s=LEASE_S), counters, store, books, telemetry, lambda: alive)
        limits.apply_snapshot(Snapshot(1, "", {}, {}, rules))
        await limits.start()
        workers.append(Worker(limits, telemetry, books, store))
        return workers[-1]

    yield make
    for worker in workers:
        await worker.limits.stop()
        await worker.database.dispose()


async def until(claim: Callable[[], bool], within_s: float = 5) -> None:
    for _ in range(int(within_s * 100)):
        if claim():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


async def lose_memory(valkey: Valkey, *workers: Worker) -> None:
    """Once all workers know that there is a memory, and Postgres does too."""
    for worker in workers:
        async with worker.database.connect() as connection:
            for _ in range(500):
                if (await connection.execute(text("SELECT 1 FROM limit_epochs"))).first():
                    break
                await asyncio.sleep(0.01)
    valkey.forget()


async def test_what_no_rule_is_about_needs_no_ticket(make: Make):
    worker = await make(Limit("bobs", {"key": BOB.prefix}, "requests", 1, "minute"))
    assert await worker.limits.reserve("a", ADA, "m", {}, UsageEstimate()) is None
    assert (await worker.take(caller=BOB)).headers[0] == (b"x-ratelimit-limit-requests", b"1")


async def test_workers_together_admit_exactly_the_amount(make: Make):
    rules = (Limit("keys", {"key": "each"}, "requests", 50, "minute"), Limit("tokens", {"team": "each"}, "tokens", 10_000, "hour"))
    workers = [await make(*rules) for _ in range(4)]
    taken = await asyncio.gather(*(worker.admitted(50, need=UsageEstimate(10, 10)) for worker in workers))
    assert sum(map(len, taken)) == 50
    assert await workers[0].left("tokens") == 10_000 - 50 * 20  # the refused took nothing
    for worker, tickets in zip(workers, taken, strict=True):
        for ticket in tickets:
            worker.limits.settle(ticket, ActualUsage(7, 6))
            worker.limits.settle(ticket, ActualUsage(7, 6))
    for _ in range(100):
        if await workers[0].left("tokens") == 10_000 - 50 * 13:
            break
    assert [await worker.left("tokens") for worker in workers] == [10_000 - 50 * 13] * 4
    assert await workers[0].left("keys") == 0 and await workers[0].left("keys", BOB) == 50


async def test_a_refusal_says_which_rule_what_is_left_and_when_to_come_back(make: Make):
    worker = await make(
        Limit("per second", {"key": "each"}, "input_tokens", 10, "second"), Limit("much", {"all": "each"}, "requests", 99, "day")
    )
    await worker.take(need=UsageEstimate(8, 1))
    with pytest.raises(LimitExceeded) as refused:
        await worker.take(need=UsageEstimate(3, 1))
    error = refused.value
    assert (error.status, error.code) == (429, "input_tokens_limit_reached") and error.retry_after_s is not None
    assert "'per second'" in error.message and "2 input tokens are left" in error.message
    told = {"rule": "per second", "resource": "input_tokens", "amount": 10, "per": "second", "needed": 3, "remaining": 2}
    assert error.details is not None and dict(error.details).items() >= told.items() and error.details["retry_after_is"] == "exact"
    headers = dict(error.headers)
    assert headers[b"x-ratelimit-remaining-input-tokens"] == b"2" and headers[b"x-ratelimit-remaining-tokens"] == b"2"
    assert headers[b"x-ratelimit-remaining-requests"] == b"98" and int(headers[b"retry-after-ms"]) == round(error.retry_after_s * 1000)
    await asyncio.sleep(error.retry_after_s)
    assert (await worker.take(need=UsageEstimate(3, 1))).headers
    assert worker.metric('narthex_limit_refusals_total{rule="per second"}') == 1


async def test_what_can_never_pass_is_not_told_to_wait(make: Make):
    worker = await make(Limit("small", {"key": "each"}, "tokens", 10, "minute"), Limit("dear", {"team": "each"}, "cost_usd", 0.5, "month"))
    with pytest.raises(LimitUnsatisfiable) as never:
        await worker.take(need=UsageEstimate(4, 7))
    assert (never.value.status, never.value.code, never.value.retry_after_s) == (400, "limit_exceeds_amount", None)
    with pytest.raises(LimitUnsatisfiable) as unpriced:
        await worker.take(need=UsageEstimate(1, 1, None))
    assert unpriced.value.code == "no_price" and "'m'" in unpriced.value.message
    assert await worker.left("dear") == 0.5
    await worker.take(need=UsageEstimate(1, 1, 123_456))
    assert await worker.left("dear") == 0.376544


@pytest.mark.parametrize("output_tokens", [2**54, 2**63, 2**64, 10**30])
async def test_a_need_of_any_size_is_refused_and_never_counts_as_less_than_nothing(make: Make, output_tokens: int):
    worker = await make(
        Limit("tokens", {"key": "each"}, "tokens", 2**53, "hour"), Limit("tried", {"key": "each"}, "tokens", 9, "hour", dry_run=True)
    )
    with pytest.raises(LimitUnsatisfiable):
        await worker.take(need=UsageEstimate(1, output_tokens, output_tokens))
    assert (await worker.left("tokens"), await worker.left("tried")) == (2**53, 9)


async def test_a_request_that_is_given_up_while_it_reserves_holds_nothing(make: Make):
    worker = await make(Limit("one", {"key": "each"}, "concurrency", 1), Limit("few", {"key": "each"}, "requests", 5, "hour"))
    for _ in range(20):
        task = asyncio.create_task(worker.take())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: not worker.limits.pending_count)
    assert await worker.left("one") == 1 and await worker.left("few") == 5


async def test_a_dry_run_refuses_nothing_and_tells(make: Make):
    worker = await make(
        Limit("trial", {"key": "each"}, "requests", 2, "minute", dry_run=True), Limit("x", {"key": "each"}, "requests", 9, "minute")
    )
    tickets = [await worker.take() for _ in range(5)]
    assert dict(tickets[-1].headers)[b"x-ratelimit-limit-requests"] == b"9"
    assert worker.metric('narthex_limit_dry_run_refusals_total{rule="trial"}') == 3


async def test_looking_and_trying_change_nothing(make: Make):
    worker = await make(Limit("few", {"key": "each"}, "requests", 2, "hour"), Limit("run", {"key": "each"}, "concurrency", 2))
    await worker.take()
    for _ in range(3):
        preview = await worker.limits.preview(ADA, "m", {}, UsageEstimate())
        assert preview.refused_by is None and [state.remaining for state in preview.rules] == [1, 1]
    await worker.take()
    preview = await worker.limits.preview(ADA, "m", {}, UsageEstimate())
    assert preview.refused_by == "few" and preview.retry_after_s is not None and 3600 < preview.retry_after_s <= 3825
    assert [state.wait_s is not None and state.wait_s > 0 for state in preview.rules] == [True, True]


async def test_a_new_amount_keeps_the_count(make: Make):
    worker = await make(Limit("few", {"key": "each"}, "requests", 2, "hour"))
    assert len(await worker.admitted(5)) == 2
    worker.limits.apply_snapshot(Snapshot(2, "", {}, {}, (Limit("few", {"key": "each"}, "requests", 3, "hour"),)))
    assert len(await worker.admitted(5)) == 1


async def test_a_fallback_takes_what_its_own_rules_ask_for(make: Make):
    each = Limit("each model", {"model": "each"}, "requests", 1, "hour")
    worker = await make(each, Limit("all", {"key": "each"}, "requests", 9, "hour"), Limit("d", {"model": "dear"}, "tokens", 10, "hour"))
    ticket = await worker.take(model="first")
    again = await worker.limits.extend_reservation(ticket, "a", ADA, "second", {}, UsageEstimate())
    assert again is ticket and len(ticket.buckets) == 3
    other = await worker.take(model="third")
    with pytest.raises(LimitExceeded):
        await worker.limits.extend_reservation(other, "b", ADA, "second", {}, UsageEstimate())
    assert len(other.buckets) == 2
    worker.limits.cancel(ticket)
    with pytest.raises(LimitUnsatisfiable):
        await worker.limits.extend_reservation(other, "b", ADA, "dear", {}, UsageEstimate(5, 6))
    assert await worker.limits.extend_reservation(other, "b", ADA, "dear", {}, UsageEstimate(5, 5)) is other
    assert await worker.limits.extend_reservation(other, "b", ADA, "second", {}, UsageEstimate()) is other


async def test_tags_have_rules_of_their_own(make: Make):
    worker = await make(
        Limit("tenants", {"tag:tenant": "each"}, "requests", 1, "hour"), Limit("acme", {"tag:tenant": "acme"}, "requests", 5, "hour")
    )
    assert await worker.limits.reserve("a", ADA, "m", {"other": "x"}, UsageEstimate()) is None
    assert [len(await worker.admitted(3, tags={"tenant": tenant})) for tenant in ("acme", "a\0b", "")] == [1, 1, 1]


# --- places


async def test_places_are_held_while_requests_run_and_free_when_their_worker_is_gone(make: Make):
    rule = Limit("two", {"key": "each"}, "concurrency", 2)
    worker, other = await make(rule), await make(rule)
    assert len(await worker.admitted(5)) == 2
    await asyncio.sleep(2 * LEASE_S)
    assert len(await other.admitted(5)) == 0
    await worker.limits.stop(0)  # without a word to Redis, as a killed one
    began = time.monotonic()
    while not await other.admitted(1):
        assert time.monotonic() - began < 2 * LEASE_S
        await asyncio.sleep(0.02)


async def test_a_place_is_freed_before_the_answer_leaves_that_frees_it():
    left: list[bytes] = []

    class Line(asyncio.Transport):
        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes | bytearray | memoryview) -> None:
            left.append(bytes(data))

    turn, line = WriteBatcher(), Line()
    redis = Connection(turn, 1, lambda: None)
    redis.connection_made(line)
    turn.write(Line(), b"an answer")
    for told in (b"settled", b" and taken"):
        redis.send(told, asyncio.get_running_loop().create_future())
    await asyncio.sleep(0.01)
    redis.connection_lost(None)
    assert left == [b"settled and taken", b"an answer"]


async def test_concurrency_never_exceeds_its_cap(make: Make):
    workers = [await make(Limit("three", {"team": "each"}, "concurrency", 3)) for _ in range(3)]
    running = most = done = 0

    async def one(worker: Worker, caller: Caller) -> None:
        nonlocal running, most, done
        for _ in range(40):
            try:
                ticket = await worker.take(caller=caller)
            except LimitExceeded as error:
                assert error.code == "concurrency_limit_reached" and error.details and error.details["retry_after_is"] == "estimate"
                await asyncio.sleep(0.002)
                continue
            running, done = running + 1, done + 1
            most = max(most, running)
            await asyncio.sleep(0.004)
            running -= 1
            worker.limits.settle(ticket, ActualUsage())

    await asyncio.gather(*(one(worker, caller) for worker in workers for caller in (ADA, BOB, ADA)))
    assert most == 3 and done > 40
    await until(lambda: not any(worker.limits.pending_count for worker in workers))
    assert await workers[0].left("three") == 3


# --- Redis away


async def test_what_was_settled_while_redis_was_away_is_settled_when_it_is_back(make: Make, valkey: Valkey):
    worker = await make(Limit("t", {"key": "each"}, "tokens", 1000, "hour"), Limit("c", {"key": "each"}, "concurrency", 5))
    tickets = [await worker.take(need=UsageEstimate(50, 50)) for _ in range(4)]
    valkey.kill()
    for ticket in tickets:
        worker.limits.settle(ticket, ActualUsage(10, 5))
    await asyncio.sleep(0.1)
    await asyncio.to_thread(valkey.start)
    await until(lambda: not worker.limits.pending_count)
    assert await worker.left("t") == 1000 - 4 * 15 and await worker.left("c") == 5


async def test_without_redis_each_worker_enforces_its_share_and_redis_is_told_later(make: Make, valkey: Valkey):
    rules = (Limit("r", {"key": "each"}, "requests", 40, "hour"), Limit("c", {"key": "each"}, "concurrency", 30))
    worker = await make(*rules, alive=4)
    taken = await worker.admitted(4)
    valkey.kill()
    await until(lambda: not worker.limits.is_redis_up)
    local = await worker.admitted(20)
    # 36 were left when Redis was last asked, of which a fourth is this worker's; of places 7, of which it has 4.
    assert len(local) == 3 and all((b"x-narthex-limits", b"local") in ticket.headers for ticket in local)
    for ticket in (*taken, *local):
        worker.limits.settle(ticket, ActualUsage())
    assert all((b"x-narthex-limits", b"local") in ticket.headers for ticket in local), "an answer's headers are written when it is settled"
    with pytest.raises(Unavailable, match="cannot be told at the moment"):
        await worker.limits.rule_states(ADA, None, {})
    assert len(await worker.admitted(20)) == 6
    assert worker.metric("narthex_redis_away") == 1 and worker.metric("narthex_limits_local_total") == 9
    await asyncio.to_thread(valkey.start)
    await until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert await worker.left("r") == 40 - 4 - 9 and await worker.left("c") == 30 - 6
    assert worker.metric("narthex_redis_away") == 0
    assert len(await worker.admitted(40)) == 24


async def test_a_rule_that_will_not_do_without_redis_refuses_and_costs_microseconds(make: Make, valkey: Valkey):
    worker = await make(
        Limit("strict", {"key": "each"}, "requests", 9, "hour", on_outage="refuse"), Limit("b", {"key": "each"}, "requests", 9, "hour")
    )
    await worker.take()
    valkey.kill()
    await until(lambda: not worker.limits.is_redis_up)
    began = time.perf_counter()
    for _ in range(200):
        with contextlib.suppress(Unavailable):
            raise AssertionError(await worker.take())
    assert (time.perf_counter() - began) / 200 < 0.001
    with pytest.raises(Unavailable, match="'strict'") as refused:
        await worker.take()
    assert refused.value.code == "limits_unavailable" and refused.value.retry_after_s
    await asyncio.to_thread(valkey.start)
    await until(lambda: worker.limits.is_redis_up)
    assert await worker.left("strict") == 8


async def test_a_redis_that_says_nothing_holds_nobody_up_and_counts_once(make: Make, valkey: Valkey):
    worker = await make(Limit("r", {"key": "each"}, "requests", 40, "hour"), Limit("c", {"key": "each"}, "concurrency", 30))
    await worker.take()
    os.kill(valkey.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        tickets = await worker.admitted(5)
        assert len(tickets) == 5 and time.monotonic() - began < 0.5
        worker.limits.settle(tickets[0], ActualUsage())
        worker.limits.cancel(tickets[1])
        await asyncio.sleep(0.3)
    finally:
        os.kill(valkey.pid, signal.SIGCONT)
    await until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert await worker.left("r") == 40 - 1 - 4 and await worker.left("c") == 30 - 1 - 3


async def test_a_redis_that_is_full_counts_as_away_and_is_told_once_there_is_room(make: Make, valkey: Valkey):
    worker = await make(Limit("ten", {"key": "each"}, "requests", 10, "hour"))
    await worker.take()
    valkey.client.config_set("maxmemory", 100_000)
    try:
        assert len(await worker.admitted(20)) == 9
        await until(lambda: not worker.limits.is_redis_up)
    finally:
        valkey.client.config_set("maxmemory", 0)
    await until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert await worker.admitted(5) == []


async def test_a_place_of_a_fallback_is_held_while_redis_is_away(make: Make, valkey: Valkey):
    worker = await make(Limit("one at a time", {"model": "dear"}, "concurrency", 1), Limit("all", {"key": "each"}, "requests", 9, "hour"))
    ticket = await worker.take()
    assert await worker.limits.extend_reservation(ticket, "a", ADA, "dear", {}, UsageEstimate()) is ticket
    valkey.kill()
    await until(lambda: not worker.limits.is_redis_up)
    assert await worker.admitted(2, model="dear") == []
    worker.limits.settle(ticket, ActualUsage())
    assert len(await worker.admitted(2, model="dear")) == 1


async def test_a_worker_starts_without_redis_and_finds_it_later(make: Make, valkey: Valkey):
    valkey.stop()
    worker = await make(Limit("r", {"key": "each"}, "requests", 4, "hour"))
    assert len(await worker.admitted(9)) == 4
    await asyncio.to_thread(valkey.start)
    await until(lambda: worker.limits.is_redis_up and not worker.limits.pending_count)
    assert len(await worker.admitted(9)) == 0


async def test_scripts_that_the_server_has_lost_are_told_to_it_again(make: Make, valkey: Valkey):
    worker = await make(Limit("r", {"key": "each"}, "tokens", 40, "hour"))
    ticket = await worker.take(need=UsageEstimate(5, 5))
    valkey.client.script_flush()
    worker.limits.settle(ticket, ActualUsage(1, 1))
    await until(lambda: not worker.limits.pending_count)
    valkey.client.script_flush()
    assert len(await worker.admitted(9, need=UsageEstimate(10, 9))) == 2


async def test_a_password_a_user_and_a_number_are_in_the_address(make: Make, valkey: Valkey):
    valkey.client.execute_command("ACL", "SETUSER", "narthex", "on", ">s:cret", "+@all", "~nx:*")
    try:
        rule = Limit("r", {"key": "each"}, "requests", 4, "hour")
        worker = await make(rule, url=valkey.url.replace("unix://", "unix://narthex:s%3Acret@") + "?db=3")
        assert len(await worker.admitted(9)) == 4 and not valkey.client.keys("nx:l:*")
        stranger = await make(rule, url=valkey.url.replace("unix://", "unix://narthex:wrong@"), alive=2)
        assert not stranger.limits.is_redis_up and len(await stranger.admitted(9)) == 2
    finally:
        valkey.client.execute_command("ACL", "DELUSER", "narthex")


async def test_an_address_may_ask_for_tls(make: Make, valkey: Valkey):
    """By a server of TLS before the real one, which has none."""
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
        worker = await make(rule, url=f"rediss://localhost:{port}?ssl_ca_certs={TLS / 'ca.pem'}")
        assert worker.limits.is_redis_up and len(await worker.admitted(9)) == 4
        stranger = await make(rule, url=f"rediss://localhost:{port}")  # whose authority it does not know
        assert not stranger.limits.is_redis_up
        for each in (worker, stranger):
            await each.limits.stop()


# --- memory


async def test_a_new_installation_assumes_nothing_spent_and_a_loss_everything(make: Make, valkey: Valkey):
    rules = (Limit("s", {"key": "each"}, "requests", 4, "second"), Limit("c", {"key": "each"}, "concurrency", 2))
    worker, other = await make(*rules), await make(*rules)
    first, second = await asyncio.gather(worker.take(), other.take())
    await lose_memory(valkey, worker, other)
    with pytest.raises(LimitExceeded) as refused:
        await worker.take()
    assert refused.value.retry_after_s is not None and 0.5 < refused.value.retry_after_s <= 1.1
    await asyncio.sleep(refused.value.retry_after_s + 0.3)
    assert not await other.admitted(3)  # both places are held by those who ran all the while
    worker.limits.settle(first, ActualUsage())
    await until(lambda: not worker.limits.pending_count)
    assert len(await other.admitted(3)) == 1
    assert not second.settled


async def test_without_postgres_an_unknown_memory_counts_as_a_loss(make: Make, valkey: Valkey):
    worker = await make(Limit("s", {"key": "each"}, "requests", 4, "minute"), database_url="postgresql://127.0.0.1:9/nowhere")
    with pytest.raises(LimitExceeded) as refused:
        await worker.take()
    assert refused.value.retry_after_s is not None and refused.value.retry_after_s > 59


async def test_what_runs_while_memory_is_lost_is_settled_exactly(make: Make, valkey: Valkey):
    worker = await make(Limit("s", {"key": "each"}, "tokens", 100, "second"), Limit("d", {"team": "each"}, "tokens", 1000, "day"))
    kept, ended = await worker.take(need=UsageEstimate(10, 10)), await worker.take(need=UsageEstimate(10, 10))
    await lose_memory(valkey, worker)
    worker.books.spent = UsedAmounts(3, 100, 50, 0)
    worker.limits.settle(ended, ActualUsage(10, 15))
    with pytest.raises(LimitExceeded):
        await worker.take(need=UsageEstimate(1, 1))
    await asyncio.sleep(LEASE_S + 0.01)
    assert await worker.left("d") == 1000 - 150 - 20
    worker.limits.settle(kept, ActualUsage(20, 5))
    await until(lambda: not worker.limits.pending_count)
    assert await worker.left("d") == 1000 - 150 - 25


async def test_calendar_rules_begin_with_what_the_ledger_says(make: Make, valkey: Valkey):
    worker = await make(
        Limit("m", {"team": "each", "key": "each"}, "cost_usd", 1, "month"), Limit("d", {"key": "each"}, "requests", 10, "day")
    )
    await worker.take(need=UsageEstimate(1, 1, 100))
    await lose_memory(valkey, worker)
    worker.books.spent = UsedAmounts(6, 0, 0, 400_000)
    assert not await worker.admitted(1, need=UsageEstimate(1, 1, 10))
    await asyncio.sleep(LEASE_S + 0.01)
    assert len(await worker.admitted(20, need=UsageEstimate(0, 0, 10))) == 3  # six are written down, and one is under way
    assert await worker.left("m") == 0.59987
    assert len(worker.books.asked) == 2 and {"team": "research", "key": "0123456789ab"} in worker.books.asked


async def test_without_the_ledger_calendar_rules_do_as_in_an_outage(make: Make, valkey: Valkey):
    lax = Limit("lax", {"model": "lax"}, "requests", 10, "day")
    strict = Limit("strict", {"model": "strict"}, "requests", 10, "day", on_outage="refuse")
    worker = await make(lax, strict)
    await worker.take(model="lax")
    await lose_memory(valkey, worker)
    worker.books.away = True
    assert not await worker.admitted(1, model="lax")
    await asyncio.sleep(LEASE_S + 0.01)
    assert len(await worker.admitted(20, model="lax")) == 9  # one is under way
    with pytest.raises(Unavailable, match="'strict'"):
        await worker.take(model="strict")
    worker.books.away, worker.books.spent = False, UsedAmounts(3)
    assert len(await worker.admitted(20, model="strict")) == 7
    with contextlib.suppress(LimitExceeded):
        await worker.take(model="lax")
    assert len(await worker.admitted(20, model="lax")) == 0


async def test_every_memory_is_written_down(make: Make, valkey: Valkey):
    worker = await make(Limit("s", {"key": "each"}, "requests", 4, "second"))
    await worker.take()
    for _ in range(2):
        await lose_memory(valkey, worker)
        await worker.admitted(1)
        await asyncio.sleep(0.05)
    async with worker.database.connect() as connection:
        rows = (await connection.execute(text("SELECT epoch, began_at FROM limit_epochs ORDER BY began_at"))).all()
    assert len(rows) == 3 and rows[0].began_at.year == 1970 and rows[0].epoch.startswith("0:")
    assert rows[2].epoch == valkey.client.get("nx:epoch").decode()
