"""Names in exported telemetry: teams by id, and the adapters of providers."""

import asyncpg

from app.store.postgres.partitions import Connection

# More teams are named by their ids.
_MAX_TEAMS = 50_000


async def read_team_names(connection: Connection) -> dict[str, str]:
    rows: list[asyncpg.Record] = await connection.fetch("SELECT id::text AS id, name FROM teams ORDER BY id LIMIT $1", _MAX_TEAMS)
    return {row["id"]: row["name"] for row in rows}


async def read_adapters(connection: Connection) -> dict[str, str]:
    """Returns the adapters by the configured names of providers."""
    rows: list[asyncpg.Record] = await connection.fetch("SELECT name, config ->> 'adapter' AS adapter FROM providers")
    return {row["name"]: row["adapter"] for row in rows}
