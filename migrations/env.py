"""Alembic's environment: runs the migrations in a connection handed down by app.store.migrate, or in one of its own."""

import asyncio
from typing import Any

from alembic import context
from sqlalchemy import Connection

from app.settings import Settings
from app.store.database import create_database_engine
from app.store.tables import metadata


def is_declared(name: str | None, kind: str, parents: Any) -> bool:
    """Partitions come and go by themselves (app/record/partitions.py); no migration makes or drops one."""
    return kind != "table" or name in metadata.tables


def run_migrations(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=is_declared,
        compare_server_default=True,
        transaction_per_migration=True,  # lest keys stay locked, and gateways wait for them, while a later one sums up all inferences
    )
    with context.begin_transaction():
        context.run_migrations()


async def connect_and_run_migrations() -> None:
    database = create_database_engine(Settings.read().database_url, command_timeout_s=None)
    try:
        async with database.connect() as connection:
            await connection.run_sync(run_migrations)
            await connection.commit()
    finally:
        await database.dispose()


handed_connection: Connection | None = context.config.attributes.get("connection")
if handed_connection is not None:
    run_migrations(handed_connection)
else:
    asyncio.run(connect_and_run_migrations())
