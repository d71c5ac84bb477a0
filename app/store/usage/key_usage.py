"""The last use of keys and what they spent, from the sums by hour that the writer keeps."""

import datetime
from collections.abc import Collection
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables
from app.store.postgres.conditions import unnested_ids

_usage = tables.usage.c


class UsedKey(Struct, frozen=True):
    """The usage of a key."""

    last_used: datetime.datetime | None  # the hour of its newest recorded request, whenever that was; None: there is none
    requests: int
    failed: int
    cost_microusd: int
    unpriced: int


async def read_key_usage(connection: AsyncConnection, key_ids: Collection[str], since: datetime.datetime) -> dict[str, UsedKey]:
    """The usage of keys by their ids: sums since the beginning of an hour, and the last use."""
    wanted = select(unnested_ids(key_ids).label("id")).subquery("wanted")
    newest = (
        select(_usage.hour).where(_usage.key_id == wanted.c.id).order_by(_usage.hour.desc()).limit(1).scalar_subquery().correlate(wanted)
    )
    sums = (
        select(*(func.coalesce(func.sum(_usage[name]), 0).label(name) for name in ("requests", "failed", "cost_microusd", "unpriced")))
        .where(_usage.key_id == wanted.c.id, _usage.hour >= since)
        .correlate(wanted)
        .lateral("sums")
    )
    query = select(wanted.c.id, newest.label("last_used"), *sums.c).select_from(wanted).join(sums, sums.c.requests >= 0)
    return {row.id: _to_used(row) for row in await connection.execute(query)}


def is_unused_since(moment: datetime.datetime) -> ColumnElement[bool]:
    """Returns the condition on keys that were there at a moment and made no request since the beginning of its hour."""
    keys = tables.keys.c
    hour = moment.replace(minute=0, second=0, microsecond=0)
    used = exists().where(_usage.key_id == keys.id, _usage.hour >= hour).correlate(tables.keys)
    return (keys.created_at <= moment) & ~used


def _to_used(row: Any) -> UsedKey:
    return UsedKey(row.last_used, int(row.requests), int(row.failed), int(row.cost_microusd), int(row.unpriced))
