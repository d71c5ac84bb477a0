"""Alembic's environment: runs the migrations on the connection that app.store.schema.migrate passes, or on one of its own."""

import asyncio
from typing import Any

from alembic import context
from sqlalchemy import Connection

from app.settings import Settings
from app.store.postgres.database import create_database_engine
from app.store.postgres.tables import metadata


def is_declared(name: str | None, kind: str, parents: Any) -> bool:
    """Whether a migration manages this table: the writer creates and drops partitions (app/store/postgres/partitions.py)."""
    return kind != "table" or name in metadata.tables


def run_migrations(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=is_declared,
        compare_server_default=True,
        # Otherwise keys would stay locked, and gateways wait for them, while a later migration sums up all inferences.
        transaction_per_migration=True,
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
