"""The time until which each spool is stored in Postgres."""

import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres.partitions import Connection
from app.store.postgres.tables import spools

# A machine that has not reported for so long is gone, and with it whatever its spool held.
_GONE_AFTER = datetime.timedelta(days=2)


async def report_stored_until(connection: Connection, spool: str, stored_until: datetime.datetime) -> None:
    """Everything that was received before `stored_until`, and that is in this spool, is stored."""
    await connection.execute(
        "INSERT INTO spools (spool, stored_until) VALUES ($1, $2)"
        " ON CONFLICT (spool) DO UPDATE SET stored_until = greatest(spools.stored_until, excluded.stored_until), renewed_at = now()",
        spool,
        stored_until,
    )


async def stored_until_all(connection: Connection) -> datetime.datetime | None:
    """Returns what stored_until() returns, for a writer's connection."""
    return await connection.fetchval("SELECT min(stored_until) FROM spools WHERE renewed_at > now() - $1::interval", _GONE_AFTER)


async def stored_until(connection: AsyncConnection) -> datetime.datetime | None:
    """Returns the time until which the records of all machines are stored.

    Machines that have not reported for two days are left out. Returns None if no machine has reported in that
    time.
    """
    query = select(func.min(spools.c.stored_until)).where(spools.c.renewed_at > func.now() - _GONE_AFTER)
    return (await connection.execute(query)).scalar()
