"""Migrations: bring the tables to the revision that this version needs."""

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, text

from app.store.database import create_database_engine
from app.store.errors import UnknownRevision
from app.store.migrations_folder import find_migrations_folder

LOCK = 0x6E617274_6D696772  # for pg_advisory_lock: two machines may start at once


async def migrate(database_url: str) -> None:
    """Bring the database to the newest revision; does nothing if it is there already. Safe to be called concurrently.

    Raises UnknownRevision.
    """
    database = create_database_engine(database_url, command_timeout_s=None)
    try:
        async with database.connect() as connection:
            await connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": LOCK})
            await connection.commit()
            # The lock is the session's, and ends with it below, whatever happens.
            await connection.run_sync(_upgrade)
            await connection.commit()
    finally:
        await database.dispose()


def alembic_config() -> Config:
    """The configuration of alembic.ini, for use from Python and wherever the package is installed."""
    config = Config()
    config.set_main_option("script_location", str(find_migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: Connection) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as fault:
        raise UnknownRevision(str(fault)) from fault
