"""The cost of limits for a request: processor time of reserve() and settle(), at 32 concurrent requests, with none to 10,000 rules.

`python -m bench.limits` starts a Valkey of its own. It prints the user and system time of this process, and that of the server.
"""

import asyncio
import resource
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from pathlib import Path

import uvloop
from msgspec import Struct

from app.domain.callers import Caller
from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.counters.scripts import EPOCH
from app.gateway.limits.limits import Limits
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from app.process.telemetry import Telemetry
from app.settings import Settings
from app.store.postgres.database import create_database_engine
from app.store.redis.resp import command
from app.supervisor.valkey import Valkey
from bench.processes import cpu_s
from providers.transport.write_batcher import WriteBatcher

_REQUESTS = 40_000
_CONCURRENCY = 32
_ESTIMATE, _ACTUAL_USAGE = UsageEstimate(400, 600, 1200), ActualUsage(380, 250, 700)
_CALLER = Caller("k", "t", "team", "full", prefix="nx-0123456789ab")

FIVE_LIMITS = (
    Limit("a", {"key": "each"}, "requests", 10**9, "minute"),
    Limit("b", {"key": "each"}, "tokens", 10**12, "minute"),
    Limit("c", {"team": "each"}, "cost_usd", 10**6, "month"),
    Limit("d", {"model": "each"}, "requests", 10**9, "second"),
    Limit("e", {"key": "each"}, "concurrency", 10**6),
)


def many_limits(count: int) -> tuple[Limit, ...]:
    """The five limits, and others that apply to other keys."""
    return (*FIVE_LIMITS, *(Limit(f"of {n}", {"key": f"nx-{n:012x}"}, "requests", 10, "minute") for n in range(count - 5)))


class _Zero(Struct, frozen=True):
    requests: int = 0
    input: int = 0
    output: int = 0
    cost_microusd: int = 0


class _EmptyLedger:
    async def used(self, scope: Mapping[str, str], since: datetime, snapshot: Snapshot) -> _Zero:
        return _Zero()

    async def is_stored(self) -> bool:
        return True

    async def workers(self) -> Sequence[str]:
        return ()

    def open_usage_by_slot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="narthex-bench-"))
    home.chmod(0o711)
    server = Valkey(home)
    url = server.start()
    try:
        print("rules   µs/request   of the server")
        for rules in ((), FIVE_LIMITS, many_limits(10), many_limits(10_000)):
            own_us, server_us = uvloop.run(_measure(url, rules, server.child.pid or 0))
            print(f"{len(rules):5}   {own_us:10.1f}   {server_us:13.1f}")
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


async def _measure(url: str, rules: Sequence[Limit], server: int) -> tuple[float, float]:
    """Microseconds for each request, of this process and of the server."""
    database = create_database_engine("postgresql://127.0.0.1:9/nowhere")
    counters = RedisCounters(url, 1.0, WriteBatcher())
    limits = Limits(Settings(), counters, database, _EmptyLedger(), Telemetry(), lambda: 1, "bench")
    limits.swap(limits.prepare(Snapshot(1, "", {}, {}, tuple(rules))))
    await limits.start()
    await counters.call(command((b"SET", EPOCH, b"0:bench")))  # as if Postgres had confirmed that no counts were lost
    await _run_requests(limits, 2_000)
    own_before_s, server_s = _cpu_spent_s(), cpu_s([server])
    await _run_requests(limits, _REQUESTS)
    own_s, server_s = _cpu_spent_s() - own_before_s, cpu_s([server]) - server_s
    empty_before_s = _cpu_spent_s()
    await _run_requests(None, _REQUESTS)
    own_s -= _cpu_spent_s() - empty_before_s
    await limits.stop()
    await database.dispose()
    return own_s / _REQUESTS * 1e6, server_s / _REQUESTS * 1e6


async def _run_requests(limits: Limits | None, requests: int) -> None:
    await asyncio.gather(*(_run_caller(limits, number, requests // _CONCURRENCY) for number in range(_CONCURRENCY)))


async def _run_caller(limits: Limits | None, number: int, requests: int) -> None:
    for each in range(requests):
        id = f"{number:08x}-0000-7000-8000-{each:012x}"
        if limits is not None:
            reservation = await limits.reserve(id, _CALLER, "m", {}, _ESTIMATE)
            if reservation is not None:
                headers = reservation.headers
                assert headers
                await asyncio.sleep(0)  # the engine
                limits.settle(reservation, _ACTUAL_USAGE)
                continue
        await asyncio.sleep(0)


def _cpu_spent_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
