"""Refusals on their way into Postgres: each counted once, whenever the writer is killed, and a damaged one holds up nothing."""

import asyncio
import random
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.domain import uuid7
from app.recording.spool.refusal_records import RefusalCount, Refusals, RefusalSample, encode_refusals
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.partitions import today
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import WriterProcess, drain, fetch
from tests.support.rollup_rows import assert_rollups_equal_a_scan
from tests.support.spooled_exchanges import spool_exchange

TEAM, KEY = str(uuid.UUID(int=100)), str(uuid.UUID(int=200))
NOW_MINUTE = int(time.time()) // 60
REFUSED = "SELECT rule, sum(requests)::bigint AS requests FROM rollups_by_{level} JOIN rollup_groups ON id = group_id" + (
    " WHERE outcome = 'refused' GROUP BY rule"
)


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S, writer_batch_rows=20, writer_batch_ms=5.0)


def count(requests: int = 1, rule: str = "one", minute: int = NOW_MINUTE, **changes: Any) -> RefusalCount:
    made = RefusalCount(minute, TEAM, KEY, "openai_chat", "m", 429, "LimitExceeded", rule, requests)
    return msgspec.structs.replace(made, **changes)


def sample(**changes: Any) -> RefusalSample:
    at_us = time.time_ns() // 1000
    made = RefusalSample(
        *(uuid7.mint(at_us), at_us, TEAM, KEY, None, "openai_chat", "m", 429, "LimitExceeded"),
        *("requests_limit_reached", None, "one", "no room", None, None),
    )
    return msgspec.structs.replace(made, **changes)


async def stored(settings: Settings, level: str = "minute") -> dict[str, int]:
    return {row["rule"]: row["requests"] for row in await fetch(settings.database_url, REFUSED.format(level=level))}


async def test_refusals_are_counted_once_whenever_the_writer_is_killed(settings: Settings):
    chance = random.Random(11)
    spool = Spool(settings.home / "spool", settings)
    counted: Counter[str] = Counter()
    samples: set[str] = set()
    for _ in range(6):
        for _ in range(150):
            counts = [count(chance.randrange(1, 50), f"rule {chance.randrange(5)}", NOW_MINUTE - chance.randrange(100)) for _ in range(4)]
            for each in counts:
                counted[each.rule] += each.requests
            samples.add((taken := sample()).id)
            assert spool.append_refusals(encode_refusals(Refusals(counts, [taken])))
            spool_exchange(spool, b"question", b"answer")
        before = sum((await stored(settings)).values())
        writer = WriterProcess(settings)

        async def has_stored_more(before: int = before) -> bool:
            return sum((await stored(settings)).values()) > before

        await wait_until(has_stored_more)
        await asyncio.sleep(chance.random() * 0.05)
        writer.kill()
    spool.close()
    status = await drain(settings)
    assert status.quarantined == status.torn_records == 0
    for level in ("minute", "hour", "day"):
        assert await stored(settings, level) == counted
    for level in (f"{period}_and_{breadth}" for period in ("hour", "day") for breadth in ("outcome", "team", "target", "key")):
        assert await stored(settings, level) == {"": counted.total()}
    assert {str(row["id"]) for row in await fetch(settings.database_url, "SELECT id FROM refusals")} == samples
    assert not list((settings.home / "spool").glob("*.refusals"))
    await fetch(settings.database_url, "DELETE FROM rollup_groups WHERE outcome = 'refused'")
    await assert_rollups_equal_a_scan(settings.database_url)  # those of inferences are as without refusals


@pytest.mark.parametrize(
    "bad",
    [
        Refusals([count(team_id="nobody")], []),
        Refusals([count(rule="\0")], []),
        Refusals([count(minute=NOW_MINUTE * 2)], []),
        Refusals([count(status=99_999)], []),
        Refusals([count(-1)], []),
        Refusals([], [sample(id="x")]),
        Refusals([], [sample(id=uuid7.mint((today() - 1000) * 86_400_000_000))]),
        Refusals([], [sample(message="\0")]),
        Refusals([], [sample(received_us=-(2**60))]),
    ],
)
async def test_what_postgres_would_not_take_is_set_aside_alone(settings: Settings, bad: Refusals):
    spool = Spool(settings.home / "spool", settings)
    for refused in (Refusals([count(2)], [sample()]), bad, Refusals([count(3)], [sample()])):
        assert spool.append_refusals(encode_refusals(refused))
    spool_exchange(spool, b"question", b"answer")
    spool.close()
    status = await drain(settings)
    assert (status.quarantined, status.rows) == (1, 1)
    assert await stored(settings) == {"one": 5}
    [path] = (settings.home / "quarantine").iterdir()
    assert encode_refusals(bad) in path.read_bytes()
