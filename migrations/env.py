"""Alembic's environment: runs the migrations in a connection handed down by app.store.migrate, or in one of its own."""

import asyncio
from typing import Any

from alembic import context
from sqlalchemy import Connection

from app.settings import Settings
from app.store.database import engine
from app.store.tables import metadata


def is_ours(name: str | None, kind: str, parents: Any) -> bool:
    """Partitions come and go by themselves (app/record/partitions.py); no migration makes or drops one."""
    return kind != "table" or name in metadata.tables


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=is_ours,
        compare_server_default=True,
        transaction_per_migration=True,  # lest keys stay locked, and gateways wait for them, while a later one sums up all inferences
    )
    with context.begin_transaction():
        context.run_migrations()


async def connect_and_run() -> None:
    database = engine(Settings.read().database_url, patience_s=None)
    try:
        async with database.connect() as connection:
            await connection.run_sync(run)
            await connection.commit()
    finally:
        await database.dispose()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    asyncio.run(connect_and_run())
