"""Retention: each recorded table loses what is older than its setting, and REST and the command show what is kept."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.domain import uuid7
from app.recording.writes import retention
from app.recording.writes.retained_tables import BOUNDED_TABLES, MIN_USAGE_DAYS, TABLES
from app.recording.writes.retention import list_retention
from app.settings import Settings
from app.store.postgres import partitions
from app.store.postgres.database import connect, create_database_engine
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch, running_writer

DAY = timedelta(days=1)


async def _insert_usage(database: str, *ages: timedelta) -> None:
    connection = await connect(database)
    now = datetime.now(UTC)
    for age in ages:
        await connection.execute(
            "INSERT INTO usage SELECT gen_random_uuid(), $1, gen_random_uuid(), 'm', 1, 0, 1, 1, 0, 0, 1, 1, 1, 0", now - age
        )
    await connection.close()


async def test_writer_deletes_old_sums_in_batches_and_keeps_the_rest(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_BATCH_ROWS", 3)
    await _insert_usage(database, *[100 * DAY] * 8, *[99 * DAY] * 3, timedelta(), 89 * DAY)
    settings = Settings(home=tmp_path, database_url=database, keep_usage_days=90, keep_inferences_days=30)
    marks = [(uuid7.mint(), 31), (uuid7.mint(), 29)]
    for id, days in marks:
        await fetch(database, "INSERT INTO deleted_responses VALUES ($1, gen_random_uuid(), now() - make_interval(days => $2))", id, days)

    async def are_deleted() -> bool:
        rows = await fetch(database, "SELECT count(*) AS usage, (SELECT count(*) FROM deleted_responses) AS marks FROM usage")
        return tuple(rows[0]) == (2, 1)

    async with running_writer(settings):
        await wait_until(are_deleted)
    (kept,) = await fetch(database, "SELECT id::text FROM deleted_responses")
    assert kept["id"] == marks[1][0]


_COUNT_DELETED = """
    CREATE TABLE deleted_at_once (replays bigint);
    CREATE FUNCTION count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO deleted_at_once SELECT count(*) FROM gone; RETURN NULL; END
    $$;
    CREATE TRIGGER count_deleted AFTER DELETE ON replays REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_deleted();
    INSERT INTO replays (id, definition, team_id, key_id, created_at, created_by, refused)
    SELECT gen_random_uuid(), '{}', gen_random_uuid(), gen_random_uuid(), now() - make_interval(days => 19 + n), 'n', '{}'
    FROM generate_series(1, 18) n;
    INSERT INTO replay_items (replay_id, number, original_id, episode) SELECT id, 1, id, 1 FROM replays
"""


async def test_few_replays_are_deleted_at_once_as_each_may_have_many_items(database: str) -> None:
    connection = await connect(database)
    await connection.execute(_COUNT_DELETED)
    await retention.delete_expired(connection, Settings(keep_inferences_days=25))
    (left,) = await connection.fetch("SELECT (SELECT count(*) FROM replays) AS replays, (SELECT count(*) FROM replay_items) AS items")
    (deleted,) = await connection.fetch("SELECT max(replays) AS most, sum(replays) AS total FROM deleted_at_once")
    await connection.close()
    assert tuple(left) == (5, 5) and tuple(deleted) == (5, 13)


@pytest.mark.parametrize(("keep_days", "left"), [(0, 3), (1, 2), (MIN_USAGE_DAYS, 2), (MIN_USAGE_DAYS + 10, 3)])
async def test_sums_that_budgets_need_are_kept_whatever_the_setting(database: str, keep_days: int, left: int) -> None:
    await _insert_usage(database, timedelta(), (MIN_USAGE_DAYS - 1) * DAY, (MIN_USAGE_DAYS + 1) * DAY)
    connection = await connect(database)
    await retention.delete_expired(connection, Settings(keep_usage_days=keep_days))
    assert await connection.fetchval("SELECT count(*) FROM usage") == left
    await connection.close()


async def test_list_says_what_is_kept_for_how_long_and_since_when(database: str) -> None:
    connection = await connect(database)
    await partitions.create_partitions(connection, [partitions.today() - 2, partitions.today()])
    await connection.close()
    await _insert_usage(database, 3 * DAY)
    engine = create_database_engine(database)
    async with engine.connect() as reading:
        listed = {each.table: each for each in await list_retention(reading, Settings(keep_content_days=7, keep_usage_days=5))}
    await engine.dispose()
    today = datetime.now(UTC).date()
    content, usage, audit = listed["inference_content"], listed["usage"], listed["audit_log"]
    assert (content.setting, content.keep_days, content.oldest, content.partitions, content.method) == (
        *("NARTHEX_KEEP_CONTENT_DAYS", 7, (today - 2 * DAY).isoformat()),
        *(2, "partitions"),
    )
    assert (usage.keep_days, usage.oldest, usage.method) == (MIN_USAGE_DAYS, (datetime.now(UTC) - 3 * DAY).date().isoformat(), "rows")
    assert (audit.setting, audit.keep_days, audit.method, audit.oldest) == (None, None, "never", None)
    units, touched = listed["experiment_units"], listed["touched_units"]
    assert (units.setting, units.keep_days, units.method) == (None, 100, "experiments")
    assert (touched.keep_days, touched.method) == (None, "when_done")
    assert usage.size_bytes > 0 and listed["inferences"].size_bytes > 0
    assert audit.note is not None and "trigger" in audit.note


async def test_every_table_of_the_database_is_declared_as_growing_or_bounded(database: str) -> None:
    """A new table belongs into retained_tables.py: into TABLES if it grows, else, with the reason, into BOUNDED_TABLES."""
    existing = await fetch(
        database,
        "SELECT relname AS name FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition",
    )
    growing = [table.name for table in TABLES]
    assert len(set(growing)) == len(growing) and not set(growing) & BOUNDED_TABLES.keys()
    assert {row["name"] for row in existing} == {*growing, *BOUNDED_TABLES}


def test_what_is_kept_for_ever_says_why() -> None:
    settings = Settings(keep_usage_days=0)
    unexplained = [table.name for table in TABLES if not table.keep_days(settings) and not table.note]
    # Sums by day, which name nobody, are said to be kept in the manual, and usage has a setting.
    broad = [f"rollups_by_day_and_{breadth}" for breadth in ("outcome", "team", "target", "key")]
    assert unexplained == ["rollups_by_day", *broad, "usage"]


async def test_rows_are_counted_with_those_of_partitions(database: str) -> None:
    today = partitions.today()
    connection = await connect(database)
    await partitions.create_partitions(connection, [today - 1, today], ["refusals"])
    for day, count in ((today - 1, 7), (today, 4)):
        await connection.execute(
            "INSERT INTO refusals (id, received_at, route, model, status, error, rule)"
            " SELECT ($1 || lpad(n::text, 12, '0'))::uuid, now(), 'r', 'm', 429, 'e', '' FROM generate_series(1, $2) n",
            uuid7.lowest_at(day * partitions.DAY_MS)[:-12],
            count,
        )
    await connection.close()

    async def are_counted() -> bool:
        engine = create_database_engine(database)
        async with engine.connect() as reading:
            listed = {each.table: each.rows for each in await list_retention(reading, Settings())}
        await engine.dispose()
        return (listed["refusals"], listed["cost_changes"]) == (11, 0)

    await wait_until(are_counted)


async def test_processes_that_are_gone_for_a_week_are_forgotten(database: str) -> None:
    for name, days in (("gone", 8), ("here", 0)):
        await fetch(database, "INSERT INTO workers VALUES ($1, 1, now() - make_interval(days => $2))", name, days)
    connection = await connect(database)
    await retention.delete_expired(connection, Settings())
    assert [row["id"] for row in await connection.fetch("SELECT id FROM workers")] == ["here"]
    await connection.close()


async def test_rest_and_command_show_the_same(service: Service) -> None:
    async with service.admin_client() as admin:
        shown = (await admin.get("/admin/v1/retention")).json()["data"]
    by_table = {each["table"]: each for each in shown}
    assert by_table["inferences"]["keep_days"] == 400 and by_table["usage"]["keep_days"] is None
    tables = json.loads(service.run("retention", "--json").stdout)["tables"]
    assert [(each["table"], each["keep_days"]) for each in tables] == [(each["table"], each["keep_days"]) for each in shown]
    printed = service.run("retention").stdout
    assert "for ever" in printed and "100 days after its experiment" in printed and "until it is counted" in printed
    assert "NARTHEX_KEEP_CONFIGURATION_DAYS" in printed and by_table["snapshots"]["keep_days"] == 400
