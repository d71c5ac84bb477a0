"""Queries of usage, by key, team, model and time, from the sums that the writer keeps."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import ARRAY, ColumnElement, FromClause, Select, Text, and_, case, cast, func, not_, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.keys.rows import ids_counted_as
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.usage.counted_models import MODEL_PREFIX_PATTERN, NAME_PREFIX_PATTERN, OtherNames, function_names, model_names, sent_names
from app.store.usage.rollups import REFUSED

Group = Literal["hour", "day", "month", "model", "key"]
SUMS = (
    "requests",
    "failed",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "charged_input",
    "charged_output",
    "cost_microusd",
    "unpriced",
)

_HOUR = datetime.timedelta(hours=1)


class UsedAmounts(Struct, frozen=True):
    """The amounts of ended requests that limits count.

    Tokens are as charged, and the cost is counted as far as it is known.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    cost_microusd: int = 0


async def read_used(
    connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime, others: OtherNames | None = None
) -> UsedAmounts:
    """Returns what a subject has used since a moment (with its zone), as far as it is stored in Postgres.

    Spools may hold more. `scope` has values of the dimensions key (as which it is counted), team (its name),
    model, function, tag:NAME, shadow; or all. `others` is what else counts under its model, of which an upper
    bound is given. The query is cheap, except for a tag or a shadow: no sums are kept by these, so all
    inferences since then are read, which takes some seconds for each million of them.
    """
    if any(dimension.startswith("tag:") or dimension == "shadow" for dimension in scope):
        return await _read_from_inferences(connection, scope, since, None, others)
    # The sums are by full hours of UTC, and a day may begin within one: in India, at 18:30 UTC.
    full_since = first_full_hour(since)
    used = [await _read_hours(connection, scope, full_since, None)]
    if others is not None:
        used.append(await _read_hours_of_others(connection, scope, full_since, others))
    if full_since != since:
        used.append(await _read_from_inferences(connection, scope, since, full_since, others))
    return UsedAmounts(*(sum(amounts) for amounts in zip(*map(msgspec.structs.astuple, used), strict=True)))


async def _read_hours(
    connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime, sent: Sequence[str] | None
) -> UsedAmounts:
    """Sums whole hours. `sent` are the names that callers sent, instead of the model of the scope."""
    columns = tables.usage.c
    sums = select(
        func.sum(columns.requests), func.sum(columns.charged_input), func.sum(columns.charged_output), func.sum(columns.cost_microusd)
    )
    query = sums.where(columns.hour >= since, *scope_conditions(tables.usage, scope if sent is None else _without_model(scope)))
    return await _read_sums(connection, query if sent is None else query.where(one_of(columns.model, sent)))


async def _read_hours_of_others(
    connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime, others: OtherNames
) -> UsedAmounts:
    """All that these names have used, without what is known to have used another model.

    So where what is charged is more than what was reported, which alone the rollups have, it counts. A model that was tried in vain before
    another one answered is not known there, and is not counted.
    """
    all_of_them = await _read_hours(connection, scope, since, [sent for name in others.names for sent in sent_names(name)])
    if all_of_them.requests == 0:
        return all_of_them
    groups, hours = tables.rollup_groups, tables.rollup_tables["hour"]
    name = case((groups.c.function != "", groups.c.function), else_=groups.c.model)
    may_count = or_(
        groups.c.outcome != "answered",  # all that there was may have been tried
        _is_pair(name, groups.c.variant, others.first),
        _is_pair(groups.c.provider, groups.c.served_model, others.targets),
    )
    amounts = (hours.c.requests, hours.c.input_tokens, hours.c.output_tokens, hours.c.cost_microusd)
    query = select(
        *(func.sum(amount).filter(may_count) for amount in amounts), *(func.sum(amount).filter(not_(may_count)) for amount in amounts)
    )
    query = query.select_from(hours.join(groups, groups.c.id == hours.c.group_id)).where(
        hours.c.time >= since,
        groups.c.outcome != REFUSED,
        one_of(name, others.names),
        *scope_conditions(groups, _without_model(scope)),
    )
    row = [int(each or 0) for each in (await connection.execute(query)).one()]
    total = msgspec.structs.astuple(all_of_them)
    return UsedAmounts(*(max(mine, total[at] - row[4 + at]) for at, mine in enumerate(row[:4])))


def _is_pair(first: ColumnElement[str], second: ColumnElement[str], pairs: Sequence[tuple[str, str]]) -> ColumnElement[bool]:
    """Returns the condition that two columns have the values of one of the pairs.

    There is one parameter for each half: a statement has at most 32,767.
    """
    halves = (cast([pair[half] for pair in pairs], ARRAY(Text)) for half in (0, 1))
    return tuple_(first, second).in_(select(*(func.unnest(half) for half in halves)))


def _without_model(scope: Mapping[str, str]) -> dict[str, str]:
    return {dimension: subject for dimension, subject in scope.items() if dimension != "model"}


class UsageQuery(Struct, frozen=True):
    """A query of usage of one key or team (by id), from `begin` until before `end`, both full hours; days and months are of a time zone."""

    key_id: str | None
    team_id: str | None
    begin: datetime.datetime
    end: datetime.datetime
    group_by: tuple[Group, ...] = ()
    time_zone: str = "UTC"


async def list_usage(connection: AsyncConnection, usage_query: UsageQuery, limit: int) -> list[dict[str, Any]]:
    """A row with SUMS for each group with usage, ordered by time and name; at most `limit`."""
    columns = tables.usage.c
    groups = [_group_column(name, usage_query.time_zone).label(f"by_{name}") for name in usage_query.group_by]
    query = select(*groups, *(func.coalesce(func.sum(columns[name]), 0).label(name) for name in SUMS)).where(
        columns.hour >= usage_query.begin, columns.hour < usage_query.end
    )
    if usage_query.key_id is not None:
        query = query.where(columns.key_id == usage_query.key_id)
    if usage_query.team_id is not None:
        query = query.where(columns.team_id == usage_query.team_id)
    if "key" in usage_query.group_by:
        query = query.join(tables.keys, tables.keys.c.id == columns.key_id)
    names = [group.name for group in groups]  # by name: the time zone in the expressions is a new parameter each time
    rows = await connection.execute(query.group_by(*names).order_by(*names).limit(limit))
    return [_row_to_dict(row._mapping, usage_query.group_by) for row in rows]  # pyright: ignore[reportPrivateUsage]


def _group_column(name: Group, time_zone: str) -> ColumnElement[Any]:
    columns = tables.usage.c
    match name:
        case "hour":
            return columns.hour
        case "day" | "month":
            return func.date_trunc(name, columns.hour, time_zone)
        case "model":
            return named_model(columns.model)
        case "key":
            return "nx-" + tables.keys.c.prefix


def _row_to_dict(row: Mapping[Any, Any], group_by: Sequence[Group]) -> dict[str, Any]:
    return {**{name: row[f"by_{name}"] for name in group_by}, **{name: int(row[name]) for name in SUMS}}


async def _read_from_inferences(
    connection: AsyncConnection,
    scope: Mapping[str, str],
    since: datetime.datetime,
    until: datetime.datetime | None,
    others: OtherNames | None,
) -> UsedAmounts:
    columns = tables.inferences.c
    query = select(
        func.count(),
        func.sum(func.coalesce(columns.charged_input, columns.input_tokens, 0)),
        func.sum(func.coalesce(columns.charged_output, columns.output_tokens, 0)),
        func.sum(columns.cost_microusd),
    ).where(columns.id >= uuid7.lowest_at(_to_ms(since)), columns.received_at >= since)
    if others is None:
        query = query.where(*scope_conditions(tables.inferences, scope))
    else:
        counts = or_(columns.model.in_(model_names(scope["model"])), _counts_as_other(others))
        query = query.where(*scope_conditions(tables.inferences, _without_model(scope)), counts)
    if until is not None:
        query = query.where(columns.id < uuid7.lowest_at(_to_ms(until)))
    return await _read_sums(connection, query)


def _counts_as_other(others: OtherNames) -> ColumnElement[bool]:
    columns = tables.inferences.c
    name = func.regexp_replace(columns.model, f"^{NAME_PREFIX_PATTERN}", "")
    may_count = or_(
        columns.attempts.is_not(None),  # others may have been tried before the one that answered
        _is_pair(name, columns.variant, others.first),
        _is_pair(columns.served_provider, columns.served_model, others.targets),
    )
    return and_(one_of(columns.model, [sent for each in others.names for sent in sent_names(each)]), may_count)


async def _read_sums(connection: AsyncConnection, query: Select[*tuple[Any, ...]]) -> UsedAmounts:
    return UsedAmounts(*(int(each or 0) for each in (await connection.execute(query)).one()))


def scope_conditions(table: FromClause, scope: Mapping[str, str]) -> Iterator[ColumnElement[bool]]:
    """Conditions of a scope on a table with key_id, team_id and model; tags and shadow are columns of inferences only."""
    teams = tables.teams.c
    for dimension, subject in scope.items():
        match dimension:
            case "key":
                yield table.c.key_id.in_(ids_counted_as([subject.removeprefix("nx-")]))
            case "team":
                yield table.c.team_id == select(teams.id).where(teams.name == subject).scalar_subquery()
            case "model":
                yield table.c.model.in_(model_names(subject))
            case "function":
                yield table.c.model.in_(function_names(subject))
            case "all":
                pass
            case "shadow":
                yield table.c.shadow == subject
            case _ if dimension.startswith("tag:"):
                yield table.c.shadow.is_(None)
                yield table.c.tags[dimension.removeprefix("tag:")].astext == subject
            case _:
                raise ValueError(f"There is no dimension {dimension!r}")


def named_model(recorded: ColumnElement[str]) -> ColumnElement[str]:
    """The model that a recorded name means."""
    return func.regexp_replace(recorded, f"^{MODEL_PREFIX_PATTERN}", "")


def first_full_hour(moment: datetime.datetime) -> datetime.datetime:
    """The first full hour of UTC at or after a moment."""
    utc = moment.astimezone(datetime.UTC)
    hour_start = utc.replace(minute=0, second=0, microsecond=0)
    return hour_start if hour_start == utc else hour_start + _HOUR


def _to_ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)
