"""A configuration with thousands of rules is read and prepared beside the event loop, and swapped in one step."""

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec
import pytest

from app.domain.limits import Limit
from app.gateway.limits.rules import RuleTable
from app.gateway.pipeline.gateway import Gateway
from app.main import create_applications
from app.settings import Settings
from app.store.configuration import snapshots
from app.store.postgres.database import connect
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher
from tests.support.processes.wait_until import wait_until

RULES = 20_000


class LoopWatch:
    """Looks at every turn of a worker's event loop: how long it took, and whether the parts are of one configuration."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.longest_turn_s = 0.0
        self.mixed_turns = 0

    async def run(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0)
            self.longest_turn_s = max(self.longest_turn_s, time.monotonic() - began_s)
            snapshot, rules = self._gateway.snapshot_cache.snapshot, self._gateway.limits.matcher.table.rules
            is_mixed = len(rules) != len(snapshot.limits) or [rule.limit for rule in rules[-1:]] != list(snapshot.limits[-1:])
            self.mixed_turns += is_mixed or self._gateway.fleet.table.snapshot is not snapshot


@asynccontextmanager
async def watched_worker(database: str, home: Path) -> AsyncGenerator[tuple[Gateway, LoopWatch]]:
    """A worker with a configuration and without callers; without Redis, too, which it does not need until one comes."""
    (home / "spool").mkdir(parents=True)
    settings = Settings(home=home, database_url=database, redis_url="redis://127.0.0.1:1")
    applications = create_applications(settings, WriteBatcher(), LoopTurns(), name="gateway-0")
    gateway = applications.gateway
    async with applications.callers.lifespan():
        watch = LoopWatch(gateway)
        watching = asyncio.create_task(watch.run())
        try:
            yield gateway, watch
        finally:
            watching.cancel()


async def publish(connection: "asyncpg.Connection[asyncpg.Record]", limit: Limit, position: int) -> None:
    """Publishes a limit as `narthex apply` does, whose own work in this process would hold up the watched loop."""
    statement = "INSERT INTO limits (name, position, config) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET config = $3"
    async with connection.transaction():
        await connection.execute(statement, limit.name, position, msgspec.json.encode(limit).decode())
        await connection.execute(
            "INSERT INTO snapshot_version (id, version) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET version = snapshot_version.version + 1"
        )
        await connection.execute(f"NOTIFY {snapshots.CHANNEL}")


@pytest.fixture
def collector_as_in_workers() -> Generator[None]:
    """A full collection of all that a test process has loaded would take longer than what is measured."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.usefixtures("collector_as_in_workers")
@pytest.mark.filterwarnings("ignore::litestar.exceptions.LitestarDeprecationWarning")
async def test_one_rule_beside_twenty_thousand_others_is_swapped_in_without_a_stall(database: str, tmp_path: Path):
    connection = await connect(database)
    await connection.execute(
        f"""
        INSERT INTO limits (name, position, config) SELECT 'r' || n, n,
            jsonb_build_object('name', 'r' || n, 'scope', jsonb_build_object('team', 't' || n),
                               'resource', 'requests', 'amount', 5, 'per', 'minute')
        FROM generate_series(1, {RULES}) AS n
        """
    )
    longest_turns_s: list[float] = []
    async with watched_worker(database, tmp_path / "home") as (gateway, watch):
        began_s = time.thread_time()
        RuleTable(gateway.snapshot_cache.snapshot.limits)
        in_one_go_s = time.thread_time() - began_s
        for amount in range(1, 30):  # other processes may stop this one at any time: one swap without a stall shows that it is possible
            watch.longest_turn_s = 0.0
            newest = Limit("one more", {"team": "t1"}, "requests", float(amount), "minute")
            await publish(connection, newest, RULES + 1)
            await wait_until(lambda newest=newest: gateway.snapshot_cache.snapshot.limits[-1] == newest)
            longest_turns_s.append(watch.longest_turn_s)
            if watch.longest_turn_s < in_one_go_s / 2:
                break
        limits = gateway.snapshot_cache.snapshot.limits
        assert len(limits) == RULES + 1 and watch.mixed_turns == 0
    await connection.close()
    assert min(longest_turns_s) < in_one_go_s / 2, longest_turns_s
