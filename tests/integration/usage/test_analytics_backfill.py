"""The command `narthex analytics backfill`: what a version from before analytics recorded is counted, once, whatever else happens
meanwhile.
"""

import asyncio
import dataclasses
import datetime
import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli.__main__ import main
from app.doctor import database as doctor
from app.recording.spool.spool import Spool
from app.recording.writer.rollup_backfill import Counted, count_all_uncounted
from app.recording.writes.cost_changes import driver_connection
from app.settings import Settings
from app.store.postgres.database import connect, create_database_engine
from app.store.schema.migrate import migrate
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import make_query
from app.store.usage.analytics_rows import Analytics
from app.store.usage.rollups import RollupSums, SubjectKey, add_rollups, adjust_rollups
from app.store.usage.sums import Sums
from tests.integration.usage.test_rollups import NOW, random_exchanges
from tests.support.earlier_records import BEFORE_ROLLUPS, migrate_to, store_as_before
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.rollup_rows import assert_rollups_equal_a_scan
from tests.support.spooled_exchanges import spool_exchange

BEFORE, LATER, LATE = 287, 220, 24
DAYS = 40


@pytest.fixture
def settings(tmp_path: Path, blank_database: str) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=blank_database,
        drain_timeout_s=GENEROUS_S,
        writer_batch_rows=50,
        writer_batch_ms=5.0,
        keep_minutes_days=0,
    )


@pytest.fixture
def exchanges() -> Iterator[dict[str, Any]]:
    return random_exchanges(11, DAYS)


def spool(settings: Settings, exchanges: Iterator[dict[str, Any]], count: int) -> None:
    opened = Spool(settings.home / "spool", settings)
    for fields in islice(exchanges, count):
        spool_exchange(opened, b"", b"", **fields)
    opened.close()


@pytest.fixture
async def upgraded(settings: Settings, exchanges: Iterator[dict[str, Any]]) -> str:
    """A database with records of an earlier version, some of whose last ones a writer of this version stored, with others since."""
    database = settings.database_url
    await migrate_to(database, BEFORE_ROLLUPS)
    await store_as_before(database, islice(exchanges, BEFORE))
    await migrate(database)
    spool(settings, exchanges, LATE + LATER)
    await drain(settings)
    return database


async def backfill(settings: Settings) -> list[Counted]:
    return [counted async for counted in count_all_uncounted(settings.database_url, settings)]


def total(counted: list[Counted]) -> int:
    return sum(each.requests for each in counted)


async def analytics(database: str, **question: Any) -> Analytics:
    query = make_query(
        since=NOW - datetime.timedelta(days=DAYS + 2), until=None, now=NOW, keep_minutes_days=0, keep_hours_days=400, **question
    )
    engine = create_database_engine(database)
    async with engine.connect() as connection:
        found = await read_analytics(connection, query)
    await engine.dispose()
    return found


async def test_everything_that_an_earlier_version_recorded_is_counted_once(settings: Settings, upgraded: str) -> None:
    before = await analytics(upgraded)
    assert (before.data[0].requests, before.uncounted) == (LATER + LATE, BEFORE)
    assert total(await backfill(settings)) == BEFORE
    await assert_rollups_equal_a_scan(upgraded)
    after = await analytics(upgraded)
    assert (after.data[0].requests, after.uncounted) == (BEFORE + LATER + LATE, 0)
    assert await backfill(settings) == []
    await assert_rollups_equal_a_scan(upgraded)


async def test_what_was_counted_is_not_counted_again_when_all_of_it_is_looked_at_once_more(settings: Settings, upgraded: str) -> None:
    await backfill(settings)
    await fetch(upgraded, "UPDATE rollups_since SET since = now() + interval '1 hour'")
    again = await backfill(settings)
    assert len(again) > 100 and total(again) == 0
    await assert_rollups_equal_a_scan(upgraded)


async def test_an_interrupted_backfill_goes_on_where_it_was(settings: Settings, upgraded: str) -> None:
    done: list[Counted] = []
    while (await fetch(upgraded, "SELECT since > 'epoch' AS more FROM rollups_since"))[0]["more"]:
        running = count_all_uncounted(upgraded, settings)
        async for counted in running:
            done.append(counted)
            if len(done) % 20 == 0:
                break
        await running.aclose()
    assert total(done) == BEFORE and len({each.begin for each in done}) == len(done)
    await assert_rollups_equal_a_scan(upgraded)


async def test_several_at_once_share_the_work_beside_writers(
    settings: Settings, upgraded: str, exchanges: Iterator[dict[str, Any]]
) -> None:
    async with running_writer(settings):
        spooling = asyncio.create_task(asyncio.to_thread(spool, settings, exchanges, 600))  # late ones, into the same hours
        counted = await asyncio.gather(backfill(settings), backfill(settings))
        await spooling
    assert total([*counted[0], *counted[1]]) == BEFORE
    await drain(settings)
    await assert_rollups_equal_a_scan(upgraded)


async def test_hours_that_have_expired_are_counted_by_the_day(settings: Settings, exchanges: Iterator[dict[str, Any]]) -> None:
    settings = dataclasses.replace(settings, keep_hours_days=10, keep_minutes_days=3)
    database = settings.database_url
    await migrate_to(database, BEFORE_ROLLUPS)
    await store_as_before(database, islice(exchanges, BEFORE))
    await migrate(database)
    later = list(islice(exchanges, LATER))
    spool(settings, iter(later), LATER)
    await drain(settings)
    assert total(await backfill(settings)) == BEFORE
    counted_before = Counter(datetime.datetime.fromtimestamp(each["received_us"] / 1e6, datetime.UTC).date() for each in later)
    counts = {
        level: {row["day"]: row["requests"] for row in await fetch(database, _BY_DAY.format(table=f"rollups_by_{level}"))}
        for level in ("minute", "hour", "day", "hour_and_team", "day_and_team", "day_and_target")
    }
    exact = {row["day"]: row["requests"] for row in await fetch(database, _EXACT_BY_DAY)}
    today = NOW.date()
    assert counts["day"] == counts["day_and_team"] == counts["day_and_target"] == exact
    for level, days in (("minute", 3), ("hour", 10), ("hour_and_team", 10)):
        recent = {day: requests for day, requests in exact.items() if (today - day).days < days}
        expired = {day: requests for day, requests in counted_before.items() if day not in recent}
        assert recent and expired and counts[level] == recent | expired, "what has expired gets no more"


_BY_DAY = """
    SELECT (time AT TIME ZONE 'UTC')::date AS day, sum(requests)::bigint AS requests FROM {table} GROUP BY day
"""
_EXACT_BY_DAY = "SELECT (received_at AT TIME ZONE 'UTC')::date AS day, count(*) AS requests FROM inferences GROUP BY day"


async def test_hours_that_expired_by_another_setting_are_not_taken_for_uncounted(settings: Settings, upgraded: str) -> None:
    """The settings may be those of another machine than the writers'."""
    await backfill(settings)
    days = "SELECT time, group_id, requests, duration_us FROM rollups_by_day ORDER BY 1, 2"
    before = await fetch(upgraded, days)
    for table in ("rollups_by_minute", "rollups_by_hour", "rollups_by_hour_and_team", "rollups_by_hour_and_target"):
        await fetch(upgraded, f"DELETE FROM {table}")
    await fetch(upgraded, "UPDATE rollups_since SET since = now() + interval '1 hour'")
    again = await backfill(settings)
    assert again and total(again) == 0 and await fetch(upgraded, days) == before


async def test_refusals_and_sums_of_the_erased_stay_as_they_are(settings: Settings, upgraded: str) -> None:
    """They are of no inference that is there."""
    (some,) = await fetch(upgraded, "SELECT received_at, team_id::text, key_id::text FROM inferences WHERE stored_in IS NULL LIMIT 1")
    hour = int(some["received_at"].timestamp()) // 3600 * 3600
    refused = some["team_id"], some["key_id"], "/v1/x", "m", "", "", "", "", 429, "refused", "RateLimited", "rule"
    sums = Sums()
    sums.add_requests(5)
    erased = SubjectKey("end_user", "(erased)", hour, 77, some["team_id"])
    connection = await connect(upgraded)
    async with connection.transaction():
        await add_rollups(connection, RollupSums({77: refused}, {"hour": {(hour, 77): sums}}, {"hour": {erased: sums}}), ())
    await backfill(settings)
    left = await connection.fetch("SELECT requests FROM rollups_by_hour WHERE group_id = 77")
    left += await connection.fetch("SELECT requests FROM subject_rollups_by_hour WHERE value = '(erased)'")
    await connection.execute("DELETE FROM rollup_groups WHERE id = 77")
    await connection.execute("DELETE FROM subject_rollups_by_hour WHERE value = '(erased)'")
    await connection.close()
    assert [row["requests"] for row in left] == [5, 5]
    await assert_rollups_equal_a_scan(upgraded)


async def test_whoever_changes_sums_waits_for_an_hour_that_is_being_counted(settings: Settings, upgraded: str) -> None:
    engine = create_database_engine(upgraded)
    async with engine.connect() as recomputing:
        await adjust_rollups(await driver_connection(recomputing), RollupSums({}, {}, {}))
        counting = asyncio.create_task(backfill(settings))
        done, _ = await asyncio.wait([counting], timeout=0.3)
        assert not done and (await fetch(upgraded, "SELECT since > now() AS is_untouched FROM rollups_since"))[0]["is_untouched"]
        await recomputing.rollback()
        assert total(await counting) == BEFORE
    await engine.dispose()


async def test_inferences_that_retention_took_are_no_loss_of_sums(settings: Settings, upgraded: str) -> None:
    """Their sums stay, and what is left of an hour is not taken for all of it."""
    await backfill(settings)
    before = (await fetch(upgraded, "SELECT sum(requests) AS requests FROM rollups_by_day"))[0]["requests"]
    await fetch(upgraded, "DELETE FROM inferences WHERE received_at < now() - interval '20 days'")
    await fetch(upgraded, "UPDATE rollups_since SET since = now() + interval '1 hour'")
    assert total(await backfill(settings)) == 0
    assert (await fetch(upgraded, "SELECT sum(requests) AS requests FROM rollups_by_day"))[0]["requests"] == before


async def test_doctor_analytics_and_the_command_say_what_is_missing(settings: Settings, upgraded: str) -> None:
    def narthex(*arguments: str) -> Result:
        environment = {"DATABASE_URL": upgraded, "NARTHEX_KEEP_MINUTES_DAYS": "0"}
        return CliRunner().invoke(main, list(arguments), prog_name="narthex", env=environment)

    advice = [each.message for each in doctor.diagnose(await doctor.collect_facts(upgraded)) if "analytics backfill" in (each.advice or "")]
    assert advice == [f"{BEFORE} requests that an earlier version recorded are in no analytics."]
    shown = await asyncio.to_thread(narthex, "analytics", "--since", f"{DAYS + 2}d", "--by", "team")
    assert shown.exit_code == 0 and f"{BEFORE} requests of these days, recorded by an earlier version, are missing" in shown.stderr
    refused = await asyncio.to_thread(narthex, "analytics", "--by", "team", "backfill")
    assert refused.exit_code == 2 and "takes none of the options" in refused.stderr
    done = await asyncio.to_thread(narthex, "analytics", "backfill")
    assert f"{BEFORE} requests from" in done.stdout, done.output
    by_day = [line.rpartition(": ") for line in done.stderr.splitlines() if line]
    days = [row["day"] for row in await fetch(upgraded, "SELECT DISTINCT (received_at AT TIME ZONE 'UTC')::date AS day FROM inferences")]
    assert sum(int(count) for _, _, count in by_day) == BEFORE and {day for day, _, _ in by_day} <= {str(day) for day in days}
    again = await asyncio.to_thread(narthex, "analytics", "backfill", "--json")
    assert json.loads(again.stdout) == {"requests": 0, "since": None}
    assert not [each for each in doctor.diagnose(await doctor.collect_facts(upgraded)) if "backfill" in (each.advice or "")]


async def test_a_new_database_has_nothing_to_look_for(database: str) -> None:
    assert (await fetch(database, "SELECT since = 'epoch' AS is_nothing FROM rollups_since"))[0]["is_nothing"]
