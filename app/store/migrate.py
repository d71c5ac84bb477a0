"""Migrations: the tables as this version needs them."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

import migrations
from app.store.database import create_database_engine

LOCK = 0x6E617274_6D696772  # for pg_advisory_lock: two machines that start at once


async def migrate(database_url: str) -> None:
    """Brings the database to the newest version; what is there already is left alone. Safe to be called by several at once."""
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
    """What alembic.ini says, for use from Python and wherever the package lies."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: Connection) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
