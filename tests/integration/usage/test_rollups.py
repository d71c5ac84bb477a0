"""Rollups that the writer keeps: equal to a scan of all inferences, whatever comes late and whenever the writer is killed."""

import asyncio
import dataclasses
import datetime
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain import uuid7
from app.recording.rows import rollup_sums
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.database import connect
from app.store.postgres.tables import rollup_tables, subject_rollup_tables
from app.store.usage.rollups import OTHER
from app.store.usage.sketches import RELATIVE_ERROR, bucket_of, quantiles
from providers.canonical.chat import Usage
from tests.support.earlier_records import migrate_to
from tests.support.processes.postgres import Postgres
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import WriterProcess, drain, fetch
from tests.support.rollup_rows import assert_rollups_equal_a_scan, sketch_counts
from tests.support.spooled_exchanges import spool_exchange

TEAMS = [str(uuid.UUID(int=100 + number)) for number in range(3)]
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S, writer_batch_rows=50, writer_batch_ms=5.0)


def random_exchanges(seed: int, days: float) -> Iterator[dict[str, Any]]:
    """Fields of exchanges of the last days: several teams, models, outcomes, users and tags."""
    chance = random.Random(seed)
    while True:
        at_us = int((NOW - datetime.timedelta(days=chance.random() * days)).timestamp() * 1_000_000)
        team = chance.randrange(3)
        failed = chance.random() < 0.1
        yield {
            "id": uuid7.mint(at_us),
            "received_us": at_us,
            "team_id": TEAMS[team],
            "key_id": str(uuid.UUID(int=200 + 10 * team + chance.randrange(2))),
            "model": chance.choice(("a", "b", "tensorzero::model_name::a")),
            "duration_us": int(chance.lognormvariate(13, 1.5)),
            "first_token_us": chance.choice((None, int(chance.lognormvariate(11, 1)))),
            "status": 502 if failed else 200,
            "outcome": "failed" if failed else "answered",
            "error": "UpstreamFailed" if failed else None,
            "usage": Usage(chance.randrange(1000), chance.randrange(100), chance.randrange(50), None),
            "cost_microusd": chance.choice((None, 0, 17, 123_456)),
            "charge_basis": chance.choice(("reported", "received", None)),
            "end_user": chance.choice((None, "ann", "bob", f"user-{chance.randrange(1000)}")),
            "tags": chance.choice(({}, {"tenant": "x"}, {"tenant": "y", "feature": "search"})),
        }


async def test_rollups_equal_a_scan_after_late_records(settings: Settings):
    settings = dataclasses.replace(settings, keep_minutes_days=0)
    spool = Spool(settings.home / "spool", settings)
    exchanges = random_exchanges(1, 40)
    for _ in range(300):
        spool_exchange(spool, b"", b"", **next(exchanges))
    spool.close()
    await drain(settings)
    first = await assert_rollups_equal_a_scan(settings.database_url)
    spool = Spool(settings.home / "spool", settings)
    for _ in range(300):  # into the same days, hours, groups
        spool_exchange(spool, b"", b"", **next(exchanges))
    spool.close()
    await drain(settings)
    counts = await assert_rollups_equal_a_scan(settings.database_url)
    assert counts["rollups_by_day"] > first["rollups_by_day"] > 40


async def test_rollups_equal_a_scan_after_kills_of_the_writer(settings: Settings, postgres: Postgres):
    spool = Spool(settings.home / "spool", settings)
    exchanges = random_exchanges(2, 0.2)
    chance = random.Random(3)
    stored = 0
    for _ in range(6):
        for _ in range(400):
            spool_exchange(spool, b"question", b"answer", **next(exchanges))
        writer = WriterProcess(settings)
        before = stored

        async def has_stored_more(before: int = before) -> bool:
            nonlocal stored
            stored = (await fetch(settings.database_url, "SELECT count(*) AS rows FROM inferences"))[0]["rows"]
            return stored > before

        await wait_until(has_stored_more)
        await asyncio.sleep(chance.random() * 0.05)
        writer.kill()
    spool.close()
    await drain(settings)
    assert (await fetch(settings.database_url, "SELECT count(*) AS rows FROM inferences"))[0]["rows"] == 2400
    await assert_rollups_equal_a_scan(settings.database_url)


async def test_quantiles_of_merged_sketches_are_within_the_stated_error(settings: Settings):
    chance = random.Random(4)
    durations = [int(chance.lognormvariate(13, 2)) + 2 for _ in range(3000)]
    spool = Spool(settings.home / "spool", settings)
    for duration_us in durations:
        spool_exchange(spool, b"", b"", duration_us=duration_us)
    spool.close()
    await drain(settings)
    (row,) = await fetch(settings.database_url, "SELECT duration_sketch, cardinality(duration_sketch) AS entries FROM rollups_by_day")
    assert row["entries"] < 1000, "entries of the same bucket are added up as a sketch grows"
    counts = sketch_counts(row["duration_sketch"])
    durations.sort()
    fractions = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
    for fraction, found in zip(fractions, quantiles(counts, fractions), strict=True):
        exact = durations[max(1, -(-int(fraction * 1000) * len(durations) // 1000)) - 1]
        assert found is not None and abs(found - exact) <= RELATIVE_ERROR * exact + 1, (fraction, found, exact)


def test_a_bucket_holds_what_is_within_the_error_of_its_value():
    for microseconds in (0, 1, 2, 3, 7, 1000, 999_999, 10**9, 10**12):
        (value,) = quantiles({bucket_of(microseconds): 1}, (0.5,))
        assert value is not None and abs(value - microseconds) <= RELATIVE_ERROR * microseconds + 1
    assert quantiles({}, (0.5, 0.9)) == [None, None]


async def test_subjects_of_a_team_and_day_are_bounded(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rollup_sums, "MAX_SUBJECTS", 5)
    for start in (0, 10):  # a new session of the writer knows what is stored
        spool = Spool(settings.home / "spool", settings)
        for number in range(10):
            spool_exchange(spool, b"", b"", end_user=f"user-{start + number}", tags={f"name-{start + number}": "v"})
        spool_exchange(spool, b"", b"", end_user="user-0", tags={"long": "x" * 500, "wide": "\N{SNOWMAN}" * 400})
        spool.close()
        await drain(settings)
    rows = await fetch(
        settings.database_url, "SELECT dimension, value, sum(requests)::int AS requests FROM subject_rollups_by_day GROUP BY 1, 2"
    )
    found = {(row["dimension"], row["value"]): row["requests"] for row in rows}
    assert len([subject for subject in found if subject[1] != OTHER]) == 5
    assert found["end_user", "user-0"] == 3
    assert sum(found.values()) == 46, "nothing is lost"
    assert found["tag:" + OTHER, OTHER] > 10


async def test_minutes_are_dropped_after_their_time(settings: Settings):
    old = NOW - datetime.timedelta(days=30)
    at_us = int(old.timestamp() * 1_000_000)
    spool = Spool(settings.home / "spool", settings)
    spool_exchange(spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us)
    spool.close()
    await drain(settings)
    await drain(settings)  # housekeeping of its start
    counts = {
        level: (await fetch(settings.database_url, f"SELECT count(*) AS rows FROM rollups_by_{level}"))[0]["rows"]
        for level in ("minute", "hour", "day")
    }
    assert counts == {"minute": 0, "hour": 1, "day": 1}


async def test_spools_say_until_when_they_are_stored(settings: Settings):
    before = datetime.datetime.now(datetime.UTC)
    spool = Spool(settings.home / "spool", settings)
    spool_exchange(spool, b"", b"")
    writer = WriterProcess(settings)

    async def is_stored() -> bool:
        rows = await fetch(settings.database_url, "SELECT stored_until FROM spools")
        return bool(rows) and rows[0]["stored_until"] > before

    await wait_until(is_stored)
    assert (await fetch(settings.database_url, "SELECT count(*) AS rows FROM inferences"))[0]["rows"] == 1
    assert writer.stop() == 0
    spool.close()


async def test_broader_groups_of_what_was_stored_before_them_are_summed_up_by_the_migrations(settings: Settings):
    settings = dataclasses.replace(settings, keep_minutes_days=0)
    spool = Spool(settings.home / "spool", settings)
    exchanges = random_exchanges(5, 40)
    for _ in range(300):
        spool_exchange(spool, b"", b"", **next(exchanges))
    spool.close()
    await drain(settings)
    connection = await connect(settings.database_url)
    try:
        broad = [table.name for table in (*rollup_tables.values(), *subject_rollup_tables.values()) if "_and_" in table.name]
        newest = await connection.fetchval("SELECT version_num FROM alembic_version")
        await connection.execute(f"DROP TABLE {', '.join(broad)}")
        await connection.execute("DELETE FROM rollup_groups WHERE key_id IS NULL OR model = ''")
        await connection.execute("ALTER TABLE spool_positions RENAME stored_bytes TO stored_to")
        for before, revision in (("0025", "0026"), ("0057", "0058")):
            await connection.execute("UPDATE alembic_version SET version_num = $1", before)
            await migrate_to(settings.database_url, revision)
        await connection.execute("UPDATE alembic_version SET version_num = $1", newest)
    finally:
        await connection.close()
    counts = await assert_rollups_equal_a_scan(settings.database_url)
    assert all(counts[name] for name in broad)
