"""Migrations on a real PostgreSQL."""

import asyncio
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from app.store.database import connect, create_database_engine
from app.store.migrate import migrate
from app.store.tables import metadata
from tests.support.postgres import blank_database, database, postgres

__all__ = ["blank_database", "database", "postgres"]


def schema_differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    return compare_metadata(context, metadata)


async def test_migrations_create_the_declared_tables(database: str) -> None:
    opened = create_database_engine(database)
    try:
        async with opened.connect() as connection:
            assert await connection.run_sync(schema_differences) == []
    finally:
        await opened.dispose()


async def test_recorded_tables_are_partitioned_by_id_and_content_is_not_recompressed(database: str) -> None:
    connection = await connect(database)
    try:
        keys = await connection.fetch(
            "SELECT partrelid::regclass::text AS name, pg_get_partkeydef(partrelid) AS key FROM pg_partitioned_table"
        )
        assert {row["name"]: row["key"] for row in keys} == {"inferences": "RANGE (id)", "inference_content": "RANGE (id)"}
        storage = await connection.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'inference_content'::regclass AND attstorage = 'e' ORDER BY attname"
        )
        assert [row["attname"] for row in storage] == ["ask", "reply"]
    finally:
        await connection.close()


async def test_each_migration_is_committed_by_itself(blank_database: str) -> None:
    connection = await connect(blank_database)
    try:
        await connection.execute("CREATE TABLE usage ()")  # so the fourth fails
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
        await connection.execute("INSERT INTO directory_version (id, version) VALUES (1, 7)")
        await migrate(blank_database)
        assert await connection.fetchval("SELECT count(*) FROM alembic_version") == 1
        assert await connection.fetchval("SELECT version FROM directory_version") == 7
    finally:
        await connection.close()


async def test_rows_recorded_before_migration_0007_stay_unchanged(blank_database: str) -> None:
    connection = await connect(blank_database)
    try:
        await connection.execute("CREATE TABLE credentials ()")  # so the seventh fails
        with pytest.raises(ProgrammingError):
            await migrate(blank_database)
        assert await connection.fetchval("SELECT version_num FROM alembic_version") == "0006"
        await connection.execute("DROP TABLE credentials; CREATE TABLE kept PARTITION OF inferences DEFAULT")
        # Whatever must not be null, with the least that it may hold.
        least = {"text": "'x'", "uuid": "gen_random_uuid()", "boolean": "false", "timestamp with time zone": "now()", "jsonb": "'{}'"}
        wanted = await connection.fetch(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'inferences' AND is_nullable = 'NO'"
        )
        names, values = zip(*((row["column_name"], least.get(row["data_type"], "7")) for row in wanted), strict=True)
        await connection.execute(f"INSERT INTO inferences ({', '.join(names)}) VALUES ({', '.join(values)})")
        (before,) = await connection.fetch("SELECT * FROM inferences")
        await migrate(blank_database)
        assert [dict(row) for row in await connection.fetch("SELECT * FROM inferences")] == [{**before, "usage_more": None}]
    finally:
        await connection.close()
