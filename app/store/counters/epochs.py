"""Epochs: Redis's memories, one after the other. Postgres knows whether there ever was one, which tells a loss from a beginning."""

from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine


async def has_any_epoch(database: AsyncEngine) -> bool:
    """Whether there was a memory before. Raises one of app.store.db_errors.AWAY."""
    async with database.connect() as connection:
        return (await connection.execute(text("SELECT 1 FROM limit_epochs LIMIT 1"))).first() is not None


async def record_epoch(database: AsyncEngine, epoch: str, began_ms: int) -> None:
    """`began_ms`: 0, nothing was lost. Again changes nothing. Raises one of app.store.db_errors.AWAY."""
    began_at = datetime.fromtimestamp(began_ms / 1000, UTC)
    async with database.begin() as connection:
        statement = text("INSERT INTO limit_epochs (epoch, began_at) VALUES (:epoch, :began_at) ON CONFLICT DO NOTHING")
        await connection.execute(statement, {"epoch": epoch, "began_at": began_at})
