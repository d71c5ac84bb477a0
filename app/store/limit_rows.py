"""Limits as they are stored, by name: with the time since which they have counted, which no file has."""

from collections.abc import Collection

import msgspec
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import Limit
from app.store import tables
from app.store.configuration_rows import one_of

_limits = tables.limits


class StoredLimit(Struct, frozen=True):
    """`since_ms`: when it began to count what it counts, by Postgres's clock; None: since before that was recorded."""

    limit: Limit
    since_ms: int | None


async def read_limits(
    connection: AsyncConnection, names: Collection[str] | None = None, *, resource: str | None = None
) -> list[StoredLimit]:
    """In the order of the configuration. None of a filter: any."""
    query = select(_limits.c.config, _limits.c.counted_since).order_by(_limits.c.position, _limits.c.name)
    if names is not None:
        query = query.where(one_of(_limits.c.name, names))
    if resource is not None:
        query = query.where(_limits.c.config["resource"].astext == resource)
    return [
        StoredLimit(msgspec.convert(row.config, Limit), None if row.counted_since is None else int(row.counted_since.timestamp() * 1000))
        for row in await connection.execute(query)
    ]
