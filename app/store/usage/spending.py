"""The spending of subjects since a moment, according to Postgres.

It is read from the sums that the writer keeps, and from inferences where there are none.
"""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import ARRAY, ColumnElement, FromClause, Select, Text, any_, case, cast, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.keys.rows import counted_prefix, ids_counted_as
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.usage.counted_models import NAME_PREFIX_PATTERN
from app.store.usage.counted_spending import COUNTED, counts
from app.store.usage.rollups import OTHER
from app.store.usage.usage import first_full_hour

# The values of a scope's dimensions, in their order: of a key its twelve digits.
Subject = tuple[str, ...]

# After so long, what a part of an hour holds is stored; and how many parts are kept.
_SETTLED = datetime.timedelta(hours=3)
_MAX_KEPT, _MAX_KEPT_SUBJECTS = 1000, 1000

_keys, _teams, _usage, _inferences = tables.keys, tables.teams, tables.usage, tables.inferences
_groups, _rollups, _subjects = tables.rollup_groups, tables.rollup_tables["hour"], tables.subject_rollup_tables["hour"]


class _Wanted(Struct, frozen=True):
    dimensions: Sequence[str]
    values: Mapping[str, Collection[str]]
    teams: Collection[str] | None
    least: int | None  # of all that the query sums up


class _Served(NamedTuple):
    """The columns in which a source has the name that was sent, bare, the variant or arm, and what served it.

    An empty text stands for what the source does not have.
    """

    name: ColumnElement[str]
    variant: ColumnElement[str] = literal("")
    provider: ColumnElement[str] = literal("")
    model: ColumnElement[str] = literal("")


_of_groups = _Served(
    case((_groups.c.function != "", _groups.c.function), else_=_groups.c.model),
    _groups.c.variant,
    _groups.c.provider,
    _groups.c.served_model,
)


class PartialHours:
    """A cache of what was spent in parts of hours, for those who read the same again and again.

    What was spent long ago does not change.
    """

    def __init__(self) -> None:
        self._kept: dict[Any, Mapping[Subject, int]] = {}

    async def read(
        self, connection: AsyncConnection, wanted: _Wanted, since: datetime.datetime, until: datetime.datetime
    ) -> Mapping[Subject, int]:
        key = wanted.dimensions, *((name, frozenset(values)) for name, values in sorted(wanted.values.items())), wanted.teams, since
        if key in self._kept:
            return self._kept[key]
        found = await _read(connection, _from_inferences(wanted, since, until))
        if until < datetime.datetime.now(datetime.UTC) - _SETTLED and len(found) <= _MAX_KEPT_SUBJECTS:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found


async def read_spending(
    connection: AsyncConnection,
    dimensions: Sequence[str],
    since: datetime.datetime,
    values: Mapping[str, Collection[str]],
    *,
    teams: Collection[str] | None = None,
    most: int | None = None,
    least: int | None = None,
    partial_hours: PartialHours | None = None,
) -> dict[Subject, int]:
    """Millionths of a dollar by subject, those who spent most first; who spent nothing is left out.

    The `dimensions` may be key, team, model, function, tag:NAME; none means everything together. `values` leaves only these of a dimension,
    and `teams` only what keys of these teams have spent. `most` bounds the number of subjects; `least` leaves those that have spent so
    much. Cheap, except where no sums are kept: for two tags together, and for the part of an hour with which a period begins.
    """
    full_hours_since = first_full_hour(since)
    wanted = _Wanted(dimensions, values, teams, least if full_hours_since == since else None)
    tags = [each for each in dimensions if each.startswith("tag:")]
    if len(tags) > 1:
        return _most(await _read(connection, _from_inferences(wanted, since, None)), most, least)
    summed = _from_rollups(wanted, tags[0], full_hours_since) if tags else _from_usage(wanted, full_hours_since)
    if full_hours_since == since:
        return await _read(connection, summed.limit(most))
    spent = await _read(connection, summed)
    partial = await (partial_hours or PartialHours()).read(connection, wanted, since, full_hours_since)
    for subject, microusd in partial.items():
        spent[subject] = spent.get(subject, 0) + microusd
    return _most(spent, most, least)


async def read_active(connection: AsyncConnection, since: datetime.datetime) -> tuple[set[str], set[str]]:
    """The keys, by their twelve digits, and the teams that have used anything since an hour began."""
    joined = _usage.join(_keys, _keys.c.id == _usage.c.key_id).join(_teams, _teams.c.id == _usage.c.team_id)
    query = select(counted_prefix().label("prefix"), _teams.c.name).select_from(joined).where(_usage.c.hour >= since).distinct()
    rows = (await connection.execute(query)).all()
    return {row.prefix for row in rows}, {row.name for row in rows}


async def _read(connection: AsyncConnection, query: Select[Any]) -> dict[Subject, int]:
    rows = (await connection.execute(query)).all()
    return {tuple(row[:-1]): int(row[-1]) for row in rows if row[-1]}


def _from_usage(wanted: _Wanted, since: datetime.datetime) -> Select[Any]:
    """Selects spending from usage or, by model, from rollups.

    Usage has the names that were sent, and not what served them.
    """
    if "model" in wanted.dimensions:
        joined = _rollups.join(_groups, _groups.c.id == _rollups.c.group_id)
        query = _sum_by(wanted, joined, _groups.c.key_id, _groups.c.team_id, _of_groups, _rollups.c.cost_microusd, {})
        return query.where(_rollups.c.time >= since)
    columns = _usage.c
    query = _sum_by(wanted, _usage, columns.key_id, columns.team_id, _Served(_bare_name(columns.model)), columns.cost_microusd, {})
    return query.where(columns.hour >= since)


def _from_rollups(wanted: _Wanted, tag: str, since: datetime.datetime) -> Select[Any]:
    """Selects what the values of a tag have spent. Not `(other)`: that is no value, and stands for all those beyond the number that is told
    apart.
    """
    joined = _subjects.join(_groups, _groups.c.id == _subjects.c.group_id)
    columns = (_groups.c.key_id, _subjects.c.team_id, _of_groups, _subjects.c.cost_microusd)
    query = _sum_by(wanted, joined, *columns, {tag: _subjects.c.value})
    return query.where(_subjects.c.dimension == tag, _subjects.c.value != OTHER, _subjects.c.time >= since)


def _from_inferences(wanted: _Wanted, since: datetime.datetime, until: datetime.datetime | None) -> Select[Any]:
    columns = _inferences.c
    tags = {each: columns.tags[each.removeprefix("tag:")].astext for each in wanted.dimensions if each.startswith("tag:")}
    served = _Served(_bare_name(columns.model), columns.variant, columns.served_provider, columns.served_model)
    query = _sum_by(wanted, _inferences, columns.key_id, columns.team_id, served, columns.cost_microusd, tags)
    query = query.where(columns.id >= _lowest_id(since), columns.received_at >= since, *(each.is_not(None) for each in tags.values()))
    if tags:  # a shadow counts for none of the tags of the request that it repeats, and a replay for none of another team's
        query = query.where(columns.shadow.is_(None), columns.content_team_id.is_(None))
    return query if until is None else query.where(columns.id < _lowest_id(until))


def _sum_by(
    wanted: _Wanted,
    table: FromClause,
    key_id: ColumnElement[str],
    team_id: ColumnElement[str],
    served: _Served,
    cost: ColumnElement[int],
    tags: Mapping[str, ColumnElement[str]],
) -> Select[Any]:
    columns: list[ColumnElement[Any]] = []
    conditions: list[ColumnElement[bool]] = []
    if wanted.teams is not None:
        conditions.append(team_id.in_(select(_teams.c.id).where(one_of(_teams.c.name, wanted.teams))))
    for dimension in wanted.dimensions:
        values = wanted.values.get(dimension)
        match dimension:
            case "key":
                table = table.join(_keys, _keys.c.id == key_id)
                column = counted_prefix()
                if values is not None:  # by id, which an index has
                    conditions.append(key_id.in_(ids_counted_as(values)))
            case "team":
                table = table.join(_teams, _teams.c.id == team_id)
                column = _teams.c.name
                if values is not None:
                    conditions.append(team_id.in_(select(_teams.c.id).where(one_of(_teams.c.name, values))))
            case "model":
                table = table.join(COUNTED, counts(*served))
                column = COUNTED.c.counts_as
                if values is not None:
                    conditions.append(column == any_(cast(list(values), ARRAY(Text))))
            case "function":
                column = served.name
                conditions.append(column.in_(select(tables.functions.c.name)))
                if values is not None:
                    conditions.append(column == any_(cast(list(values), ARRAY(Text))))
            case _:
                column = tags[dimension]
                if values is not None:
                    conditions.append(column == any_(cast(list(values), ARRAY(Text))))
        columns.append(column.label(f"subject{len(columns)}"))
    names = [str(each.name) for each in columns]  # by name: expressions have a new parameter each time
    total = func.sum(cost)
    query = select(*columns, total).select_from(table).where(*conditions).group_by(*names).order_by(total.desc().nulls_last(), *names)
    return query if wanted.least is None else query.having(total >= wanted.least)


def _bare_name(sent: ColumnElement[str]) -> ColumnElement[str]:
    """Returns the name of a model or function without its prefixes."""
    return func.regexp_replace(sent, f"^{NAME_PREFIX_PATTERN}", "")


def _most(spent: Mapping[Subject, int], most: int | None, least: int | None) -> dict[Subject, int]:
    enough = ((subject, microusd) for subject, microusd in spent.items() if least is None or microusd >= least)
    return dict(sorted(enough, key=lambda each: (-each[1], each[0]))[:most])


def _lowest_id(moment: datetime.datetime) -> str:
    return uuid7.lowest_at(int(moment.timestamp() * 1000))
