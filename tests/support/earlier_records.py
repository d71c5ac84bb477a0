"""Inferences as a version from before rollups stored them, in the tables that it had."""

from collections.abc import Iterable
from typing import Any

from alembic import command
from sqlalchemy import Connection

from app.recording.rows.inference_rows import inference_row
from app.recording.rows.usage_sums import sum_usage
from app.recording.writes.inference_writes import add_usage
from app.store.postgres import partitions
from app.store.postgres.database import connect, create_database_engine
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.schema.migrate import alembic_config
from tests.support.spooled_exchanges import make_exchange

BEFORE_ROLLUPS = "0020"


async def migrate_to(database: str, revision: str) -> None:
    def upgrade(connection: Connection) -> None:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine = create_database_engine(database)
    async with engine.connect() as connection:
        await connection.run_sync(upgrade)
        await connection.commit()
    await engine.dispose()


async def store_as_before(database: str, exchanges: Iterable[dict[str, Any]]) -> None:
    """Stores exchanges as the earlier version did: with what it kept of usage, and without any other sums."""
    rows = [inference_row(make_exchange(**fields)) for fields in exchanges]
    connection = await connect(database)
    try:
        await partitions.create_partitions(connection, {partitions.day_of(row[0]) for row in rows}, ["inferences", "inference_content"])
        existing = {
            row["column_name"]
            for row in await connection.fetch("SELECT column_name FROM information_schema.columns WHERE table_name = 'inferences'")
        }
        places = [at for at, name in enumerate(INFERENCE_COLUMNS) if name in existing]
        async with connection.transaction():
            await connection.copy_records_to_table(
                "inferences", records=[[row[at] for at in places] for row in rows], columns=[INFERENCE_COLUMNS[at] for at in places]
            )
            await add_usage(connection, sum_usage(rows))
    finally:
        await connection.close()
