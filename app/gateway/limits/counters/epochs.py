"""Epochs of Redis's memory. Postgres knows whether there ever was one, which tells a loss of memory from a first start."""

from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine


async def has_any_epoch(database: AsyncEngine) -> bool:
    """Whether an epoch was ever recorded. Raises one of DB_UNAVAILABLE_ERRORS."""
    async with database.connect() as connection:
        return (await connection.execute(text("SELECT 1 FROM limit_epochs LIMIT 1"))).first() is not None


async def record_epoch(database: AsyncEngine, epoch: str, began_ms: int) -> None:
    """Record an epoch; idempotent. `began_ms` 0: nothing was lost before it. Raises one of DB_UNAVAILABLE_ERRORS."""
    began_at = datetime.fromtimestamp(began_ms / 1000, UTC)
    async with database.begin() as connection:
        statement = text("INSERT INTO limit_epochs (epoch, began_at) VALUES (:epoch, :began_at) ON CONFLICT DO NOTHING")
        await connection.execute(statement, {"epoch": epoch, "began_at": began_at})
