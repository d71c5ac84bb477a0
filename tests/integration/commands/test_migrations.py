"""Migrations on a real PostgreSQL: the tables they create, how they fail and repeat, and that recorded rows survive them."""

import asyncio
import json
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from app.store.postgres.database import connect, create_database_engine
from app.store.postgres.partitions import TABLES
from app.store.postgres.tables import metadata
from app.store.schema.migrate import alembic_config, migrate
from app.store.schema.migrations_folder import newest_revision


def schema_differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    return compare_metadata(context, metadata)


async def test_migrations_create_the_declared_tables(database: str) -> None:
    database_engine = create_database_engine(database)
    try:
        async with database_engine.connect() as connection:
            assert await connection.run_sync(schema_differences) == []
    finally:
        await database_engine.dispose()


def test_the_newest_revision_is_alembics_head() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_current_head() == newest_revision()


async def test_recorded_tables_are_partitioned_and_content_is_not_recompressed(database: str) -> None:
    connection = await connect(database)
    try:
        keys = await connection.fetch(
            "SELECT partrelid::regclass::text AS name, pg_get_partkeydef(partrelid) AS key FROM pg_partitioned_table"
        )
        by_name = {row["name"]: row["key"].replace('"', "") for row in keys}
        assert by_name == {table.name: f"RANGE ({table.by})" for table in TABLES}
        storage = await connection.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'inference_content'::regclass AND attstorage = 'e' ORDER BY attname"
        )
        assert [row["attname"] for row in storage] == ["request", "response"]
    finally:
        await connection.close()


async def test_each_migration_is_committed_by_itself(blank_database: str) -> None:
    connection = await connect(blank_database)
    try:
        await connection.execute("CREATE TABLE usage ()")  # so that the fourth fails
        with pytest.raises(ProgrammingError):
            await migrate(blank_database)
        assert await connection.fetchval("SELECT version_num FROM alembic_version") == "0003", "each is committed by itself"
        await connection.execute("DROP TABLE usage")
        await migrate(blank_database)
    finally:
        await connection.close()


async def test_concurrent_and_repeated_migrations_are_harmless(blank_database: str) -> None:
    await asyncio.gather(*(migrate(blank_database) for _ in range(3)))
    connection = await connect(blank_database)
    try:
        await connection.execute("INSERT INTO snapshot_version (id, version) VALUES (1, 7)")
        await migrate(blank_database)
        assert await connection.fetchval("SELECT count(*) FROM alembic_version") == 1
        assert await connection.fetchval("SELECT version FROM snapshot_version") == 7
    finally:
        await connection.close()


async def test_rows_recorded_before_migration_0007_stay_unchanged(blank_database: str) -> None:
    connection = await connect(blank_database)
    try:
        await connection.execute("CREATE TABLE credentials ()")  # so that the seventh fails
        with pytest.raises(ProgrammingError):
            await migrate(blank_database)
        assert await connection.fetchval("SELECT version_num FROM alembic_version") == "0006"
        await connection.execute("DROP TABLE credentials; CREATE TABLE kept PARTITION OF inferences DEFAULT")
        # A value for every column that must not be null.
        defaults = {"text": "'x'", "uuid": "gen_random_uuid()", "boolean": "false", "timestamp with time zone": "now()", "jsonb": "'{}'"}
        columns = await connection.fetch(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'inferences' AND is_nullable = 'NO'"
        )
        names, values = zip(*((row["column_name"], defaults.get(row["data_type"], "7")) for row in columns), strict=True)
        await connection.execute(f"INSERT INTO inferences ({', '.join(names)}) VALUES ({', '.join(values)})")
        (before,) = await connection.fetch("SELECT * FROM inferences")
        await migrate(blank_database)
        renamed = {"structured_output" if name == "guided" else name: value for name, value in before.items()}
        (after,) = await connection.fetch("SELECT * FROM inferences")
        assert dict(after) == {**dict.fromkeys(after.keys()), **renamed}  # columns that were added since are null
    finally:
        await connection.close()


async def test_outcomes_and_attempt_errors_recorded_before_migration_0009_get_their_new_names(blank_database: str) -> None:
    connection = await connect(blank_database)
    try:
        await connection.execute("CREATE TABLE snapshot_version ()")  # so that the ninth fails
        with pytest.raises(ProgrammingError):
            await migrate(blank_database)
        assert await connection.fetchval("SELECT version_num FROM alembic_version") == "0008"
        await connection.execute("DROP TABLE snapshot_version; CREATE TABLE kept PARTITION OF inferences DEFAULT")
        for outcome, error in (("hung_up", "HungUp"), ("cut", "Cut"), ("failed", "Cut"), ("answered", None)):
            attempts = json.dumps([{"error": error, "message": 'it said "error": "HungUp"'}])
            await connection.execute(
                "INSERT INTO inferences (id, episode_id, received_at, team_id, key_id, route, model, streamed, status, outcome,"
                " duration_us, snapshot, attempts)"
                " SELECT id, id, now(), id, id, 'r', $1, false, 200, $1, 1, 's', $2::jsonb FROM gen_random_uuid() AS id",
                outcome,
                attempts,
            )
        before = {row["model"]: row["attempts"] for row in await connection.fetch("SELECT model, attempts FROM inferences")}
        await migrate(blank_database)
        rows = {row["model"]: row for row in await connection.fetch("SELECT model, outcome, attempts FROM inferences")}
    finally:
        await connection.close()
    assert {model: row["outcome"] for model, row in rows.items()} == {
        "hung_up": "disconnected",
        "cut": "aborted",
        "failed": "failed",
        "answered": "answered",
    }
    errors = {model: json.loads(row["attempts"])[0] for model, row in rows.items()}
    assert (errors["hung_up"]["error"], errors["cut"]["error"]) == ("ClientDisconnected", "Aborted")
    assert all(each["message"] == 'it said "error": "HungUp"' for each in errors.values())
    assert errors["failed"]["error"] == "Aborted" and rows["answered"]["attempts"] == before["answered"]


async def test_removed_keys_raise_both_versions_after_migration_0009(database: str) -> None:
    connection = await connect(database)
    try:
        before = await connection.fetchrow("SELECT version, last_removal_version FROM keys_version")
        await connection.execute("DELETE FROM keys WHERE false")
        after = await connection.fetchrow("SELECT version, last_removal_version FROM keys_version")
    finally:
        await connection.close()
    assert before is not None and after is not None
    assert after["version"] == after["last_removal_version"] == before["version"] + 1
