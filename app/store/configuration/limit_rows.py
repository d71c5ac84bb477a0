"""Limits as they are stored, by name: with the time since which they have counted, which no file has."""

from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.limits import CountedAs, Limit
from app.store.postgres import tables
from app.store.postgres.conditions import one_of

_limits, _keys = tables.limits, tables.keys
_SCOPE_KEY = _limits.c.config["scope"]["key"].astext


class StoredLimit(Struct, frozen=True):
    """A limit, and what its row says of how it counts."""

    limit: Limit
    since_ms: int | None  # when it began to count what it counts, by Postgres's clock; None: since before that was recorded
    counts_as: str | None = None  # the name that it had before it was renamed
    key_counts_as: str | None = None  # the first of the keys that the one in its scope replaces


def counted_as(stored: Iterable[StoredLimit]) -> CountedAs:
    stored = list(stored)
    keys = {each.limit.scope["key"]: f"nx-{each.key_counts_as}" for each in stored if each.key_counts_as is not None}
    return CountedAs(keys, {each.limit.name: each.counts_as for each in stored if each.counts_as is not None})


async def read_limits(
    connection: AsyncConnection, names: Collection[str] | None = None, *, resource: str | None = None
) -> list[StoredLimit]:
    """Returns limits in the order of the configuration. A filter that is None lets any limit pass."""
    of_key = (
        select(_keys.c.counts_as)
        .where(_keys.c.prefix == func.substr(_SCOPE_KEY, len("nx-") + 1), _keys.c.counts_as.is_not(None))
        .scalar_subquery()
    )
    columns = (_limits.c.config, _limits.c.counted_since, _limits.c.counts_as, of_key.label("key_counts_as"))
    query = select(*columns).order_by(_limits.c.position, _limits.c.name)
    if names is not None:
        query = query.where(one_of(_limits.c.name, names))
    if resource is not None:
        query = query.where(_limits.c.config["resource"].astext == resource)
    return [
        StoredLimit(
            msgspec.convert(row.config, Limit),
            None if row.counted_since is None else int(row.counted_since.timestamp() * 1000),
            row.counts_as,
            row.key_counts_as,
        )
        for row in await connection.execute(query)
    ]
