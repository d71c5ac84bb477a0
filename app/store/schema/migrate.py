"""Migrations: bring the tables to the revision that this version needs."""

import asyncio
from collections.abc import Callable
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.errors import UnknownRevision
from app.store.postgres.database import create_database_engine
from app.store.postgres.db_errors import BUSY_ERRORS, driver_error
from app.store.schema.migration_waits import MigrationWaits
from app.store.schema.migrations_folder import find_migrations_folder
from app.store.schema.server_versions import check_postgres

LOCK = 0x6E617274_6D696772  # for pg_advisory_xact_lock: two machines may start at once
WAIT_S = 300.0
# Everybody else who wants a table queues up behind a migration that waits for it. So it waits in short attempts, with a pause for others.
_ATTEMPT_S = 3.0
_PAUSE_S = 1.0


def _say_nothing(_: str) -> None:
    pass


async def migrate(database_url: str, *, wait_s: float = WAIT_S, report: Callable[[str], None] = _say_nothing) -> None:
    """Bring the database to the newest revision; does nothing if it is there already. Safe to be called concurrently.

    Each migration is a transaction, and holds the lock for that long: so it works through a pooler, too. `report` gets a sentence about
    whoever is waited for. Raises MigrationBlocked if that takes longer than `wait_s`, UnknownRevision, and UnsupportedServer.
    """
    script = ScriptDirectory.from_config(alembic_config())
    database = create_database_engine(database_url, command_timeout_s=None)
    waits = MigrationWaits(database_url, wait_s, report)
    try:
        async with database.connect() as connection:
            await check_postgres(connection)
        while await _migrate_once(database, script, waits):
            pass
    finally:
        await database.dispose()


def alembic_config() -> Config:
    """The configuration of alembic.ini, for use from Python and wherever the package is installed."""
    config = Config()
    config.set_main_option("script_location", str(find_migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


async def _migrate_once(database: AsyncEngine, script: ScriptDirectory, waits: MigrationWaits) -> bool:
    """Run the next migration; False: there is none."""
    while True:
        try:
            async with database.begin() as connection:
                await connection.execute(text(f"SET LOCAL lock_timeout = {_ATTEMPT_S * 1000:.0f}"))
                async with waits.watching(await connection.scalar(text("SELECT pg_backend_pid()")) or 0):
                    await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
                    waits.holds_lock = True
                    has_migrated = await connection.run_sync(lambda each: _upgrade(each, script))
        except DBAPIError as fault:
            if not isinstance(driver_error(fault), BUSY_ERRORS):
                raise
            waits.note_failed_attempt(_ATTEMPT_S)
            await asyncio.sleep(_PAUSE_S)
        else:
            waits.note_success()
            return has_migrated


def _upgrade(connection: Connection, script: ScriptDirectory) -> bool:
    """The next migration, in the transaction that this connection is in; False: there is none."""
    steps: list[Any] = []

    def next_step(revision: Any, _: Any) -> list[Any]:
        steps.extend(script._upgrade_revs("head", revision)[:1])  # pyright: ignore[reportPrivateUsage]  # as alembic's own upgrade does
        return steps

    config = alembic_config()
    config.attributes["connection"] = connection
    try:
        with EnvironmentContext(config, script, fn=next_step, destination_rev="head"):
            script.run_env()
    except CommandError as fault:
        raise UnknownRevision(str(fault)) from fault
    return bool(steps)
