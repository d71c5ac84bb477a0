"""Running `narthex migrate` while others hold what it changes: it says who, lets others through, ends in time, and starts no server."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic import command
from sqlalchemy import Connection

from app.doctor.check_servers import check_servers
from app.domain.errors import MigrationBlocked
from app.settings import Settings
from app.store.postgres.database import connect, create_database_engine
from app.store.schema import server_versions
from app.store.schema.migrate import LOCK, alembic_config, migrate
from app.store.schema.migrations_folder import newest_revision
from app.store.schema.postgres_status import revisions
from app.supervisor.database_query import query_database
from app.supervisor.machine.errors import OperatorError
from tests.support.processes.commands import run_command
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S
from tests.support.processes.wait_until import wait_until

# The next migration changes `teams`.
BEFORE = "0051"


@pytest.fixture
async def older(blank_database: str) -> str:
    engine = create_database_engine(blank_database)
    async with engine.connect() as connection:
        await connection.run_sync(upgrade)
        await connection.commit()
    await engine.dispose()
    return blank_database


def upgrade(connection: Connection) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, BEFORE)


@contextlib.asynccontextmanager
async def holder(url: str, statement: str) -> AsyncGenerator["asyncpg.Connection[Any]"]:
    """Somebody whose transaction has run a statement, and goes on."""
    connection = await connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(statement)
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


async def run_migrate(url: str, home: Path, **settings: str) -> Any:
    environment = {**os.environ, "DATABASE_URL": url, "NARTHEX_HOME": str(home), **settings}
    return await asyncio.to_thread(run_command, NARTHEX, ("migrate",), environment, "", PROCESS_TIMEOUT_S)


async def test_migrate_names_whom_it_waits_for_and_gives_up_in_time(older: str, tmp_path: Path) -> None:
    async with holder(older, "SELECT name FROM teams WHERE name = 'hunter2'") as held:
        pid = await held.fetchval("SELECT pg_backend_pid()")
        done = await run_migrate(older, tmp_path, NARTHEX_MIGRATE_WAIT_S="1")
    assert done.returncode == 1
    waiting, *error = done.stderr.strip().splitlines()
    assert waiting.startswith(f"Waiting for process {pid} of PostgreSQL (narthex ") and "idle in transaction for" in waiting
    text = "\n".join(error)
    assert f"pg_terminate_backend({pid})" in text and "narthex migrate" in text, text
    assert "hunter2" not in done.stderr and "Start" not in text and "running" not in text, text
    again = await run_migrate(older, tmp_path)
    assert again.returncode == 0 and f"migrated from {BEFORE} to {newest_revision()}" in again.stdout, again.stderr


async def test_migrate_goes_on_when_it_may_and_lets_others_through_meanwhile(older: str) -> None:
    said: list[str] = []
    async with holder(older, "SELECT FROM teams"):
        task = asyncio.create_task(migrate(older, report=said.append))
        await wait_until(lambda: bool(said))
        other = await connect(older, 30.0)
        await other.fetch("SELECT FROM teams")  # it queues up behind the migration, which makes room
        assert not task.done()
        await other.close()
    await task
    assert len(said) == 1
    assert await revisions(older) == (newest_revision(), newest_revision())


async def test_migrate_says_that_another_one_runs(older: str) -> None:
    async with holder(older, f"SELECT pg_advisory_xact_lock({LOCK})"):
        with pytest.raises(MigrationBlocked, match=r"Another migration has run for more than 0 s:\n  process \d+"):
            await migrate(older, wait_s=0)


async def test_servers_that_are_too_old_are_refused_with_both_versions(
    database: str, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_versions, "MIN_POSTGRES", 99)
    settings = Settings(home=tmp_path, database_url=database)
    for start in (
        lambda: query_database(database, migrate),
        lambda: query_database(database, revisions),
        lambda: check_servers(settings, print),
    ):
        with pytest.raises(OperatorError, match=r"^PostgreSQL 1\d\.\d+ is too old: Narthex needs 99 or newer\.$"):
            await asyncio.to_thread(start)
