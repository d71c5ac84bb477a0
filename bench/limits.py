"""What limits cost a request: processor time of reserve() and settle() with five rules, at 32 requests at a time, and for 10,000 rules.

`python -m bench.limits` starts a Valkey of its own. The figure is of this process alone, user and system; so is the server's, beside it.
"""

import asyncio
import resource
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import uvloop
from msgspec import Struct

from app.domain import Caller, Directory, Limit
from app.gateway.limits.limits import Limits
from app.gateway.limits.need import Need, Spent
from app.local.valkey import Valkey
from app.settings import Settings
from app.store.counters.counters import Counters
from app.store.counters.resp import command
from app.store.counters.scripts import EPOCH
from app.store.database import engine
from app.telemetry import Telemetry
from bench.processes import cpu_s
from providers.turn import Turn

_REQUESTS = 40_000
_AT_ONCE = 32
_NEED, _SPENT = Need(400, 600, 1200), Spent(380, 250, 700)
_CALLER = Caller("k", "t", "team", "full", prefix="nx-0123456789ab")

FIVE = (
    Limit("a", {"key": "each"}, "requests", 10**9, "minute"),
    Limit("b", {"key": "each"}, "tokens", 10**12, "minute"),
    Limit("c", {"team": "each"}, "cost_usd", 10**6, "month"),
    Limit("d", {"model": "each"}, "requests", 10**9, "second"),
    Limit("e", {"key": "each"}, "concurrency", 10**6),
)


def many(count: int) -> tuple[Limit, ...]:
    """The five, and others that are about others."""
    return (*FIVE, *(Limit(f"of {n}", {"key": f"nx-{n:012x}"}, "requests", 10, "minute") for n in range(count - 5)))


class _Zero(Struct, frozen=True):
    requests: int = 0
    input: int = 0
    output: int = 0
    cost_microusd: int = 0


class _EmptyLedger:
    async def used(self, scope: Mapping[str, str], since: datetime) -> _Zero:
        return _Zero()


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="narthex-bench-"))
    home.chmod(0o711)
    server = Valkey(home)
    url = server.start()
    try:
        print("rules   µs/request   of the server")
        for rules in ((), FIVE, many(10), many(10_000)):
            mine, theirs = uvloop.run(_measure(url, rules, server.child.pid or 0))
            print(f"{len(rules):5}   {mine:10.1f}   {theirs:13.1f}")
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


async def _measure(url: str, rules: Sequence[Limit], server: int) -> tuple[float, float]:
    """Microseconds for each request, of this process and of the server."""
    database = engine("postgresql://127.0.0.1:9/nowhere")
    counters = Counters(url, 1.0, Turn())
    limits = Limits(Settings(), counters, database, _EmptyLedger(), Telemetry(), lambda: 1)
    limits.swap(Directory(1, "", {}, {}, tuple(rules)))
    await limits.start()
    await counters.call(command((b"SET", EPOCH, b"0:bench")))  # as if Postgres had said that nothing was lost
    await _rounds(limits, 2_000)
    began, theirs = _spent_s(), cpu_s([server])
    await _rounds(limits, _REQUESTS)
    mine, theirs = _spent_s() - began, cpu_s([server]) - theirs
    empty = _spent_s()
    await _rounds(None, _REQUESTS)
    mine -= _spent_s() - empty
    await limits.stop()
    await database.dispose()
    return mine / _REQUESTS * 1e6, theirs / _REQUESTS * 1e6


async def _rounds(limits: Limits | None, requests: int) -> None:
    await asyncio.gather(*(_caller(limits, number, requests // _AT_ONCE) for number in range(_AT_ONCE)))


async def _caller(limits: Limits | None, number: int, requests: int) -> None:
    for each in range(requests):
        id = f"{number:08x}-0000-7000-8000-{each:012x}"
        if limits is not None:
            ticket = await limits.reserve(id, _CALLER, "m", {}, _NEED)
            if ticket is not None:
                headers = ticket.headers
                assert headers
                await asyncio.sleep(0)  # the engine
                limits.settle(ticket, _SPENT)
                continue
        await asyncio.sleep(0)


def _spent_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
