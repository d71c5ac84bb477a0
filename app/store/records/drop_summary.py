"""A summary of which callers lose which fields.

The dropped fields of recorded inferences are summed up by team, key and model.
"""

import datetime
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from sqlalchemy import Select, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.usage.named_filters import NamedFilters, check_named
from app.store.usage.usage import named_model, scope_conditions

DEFAULT_DAYS = 7
MAX_DAYS = 31
MAX_ROWS = 1000


class DropRow(Struct, frozen=True):
    """A field that requests of a key for a model lost. `team` and `key` None: it was removed from the database.

    `field`: without the indexes of lists. `first_at` and `last_at`: when the first and the last of the requests were received, ISO 8601.
    """

    team: str | None
    key: str | None
    model: str
    field: str
    requests: int
    first_at: str
    last_at: str


async def summarize_drops(
    connection: AsyncConnection,
    since: datetime.datetime,
    until: datetime.datetime,
    scope: Mapping[str, str],
    limit: int,
    *,
    only_teams: Collection[str] | None = None,
) -> list[DropRow]:
    """The fields that were dropped from requests received since a moment and before another, those of most requests first.

    `scope` has values of the dimensions team (its name), key (its public part) and model. `only_teams` leaves those of teams with these
    names; None means all. The partitions of the days in between are read: about a second for each million of their requests.
    """
    rows = (await connection.execute(drop_summary_query(since, until, scope, limit, only_teams))).all()
    if not rows:
        await check_named(connection, NamedFilters(**scope), only_teams)
    return [
        DropRow(
            row.team,
            row.prefix and f"nx-{row.prefix}",
            row.requested_model,
            row.field,
            row.requests,
            row.first_at.isoformat(),
            row.last_at.isoformat(),
        )
        for row in rows
    ]


def drop_summary_query(
    since: datetime.datetime, until: datetime.datetime, scope: Mapping[str, str], limit: int, only_teams: Collection[str] | None = None
) -> Select[Any]:
    inferences, columns, teams, key = tables.inferences, tables.inferences.c, tables.teams.c, scope.get("key")
    of_teams = () if only_teams is None else (columns.team_id.in_(select(teams.id).where(one_of(teams.name, only_teams))),)
    path = func.unnest(columns.dropped).column_valued("path")
    # A request loses `messages[0].name` and `messages[2].name`: one field, once.
    fields = select(func.regexp_replace(path, r"\[\d+\]", "[]", "g").label("field")).distinct().lateral("fields")
    sums = (
        select(
            columns.team_id,
            columns.key_id,
            named_model(columns.model).label("requested_model"),
            fields.c.field,
            func.count().label("requests"),
            func.min(columns.received_at).label("first_at"),
            func.max(columns.received_at).label("last_at"),
        )
        .select_from(inferences.join(fields, true()))
        .where(
            columns.id >= uuid7.lowest_at(_to_ms(since)),
            columns.id < uuid7.lowest_at(_to_ms(until)),
            columns.dropped.is_not(None),
            *scope_conditions(inferences, {name: value for name, value in scope.items() if name != "key"}),
            *(
                [columns.key_id == select(tables.keys.c.id).where(tables.keys.c.prefix == key.removeprefix("nx-")).scalar_subquery()]
                if key
                else []
            ),
            *of_teams,
        )
        .group_by(columns.team_id, columns.key_id, "requested_model", fields.c.field)
    )
    order = ("team_id", "key_id", "requested_model", "field")
    most = sums.order_by(func.count().desc(), *order).limit(limit).subquery("most")
    return (
        select(most, tables.teams.c.name.label("team"), tables.keys.c.prefix)
        .select_from(
            most.outerjoin(tables.teams, tables.teams.c.id == most.c.team_id).outerjoin(tables.keys, tables.keys.c.id == most.c.key_id)
        )
        .order_by(most.c.requests.desc(), *(most.c[name] for name in order))
    )


def _to_ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)
