"""Queries of usage, by key, team, model and time, from the sums that the writer keeps."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, FromClause, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.domain import MODEL_PREFIXES
from app.store import tables

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
# Recorded is the name that the caller sent, with its prefixes.
_MODEL_PREFIX_PATTERN = f"^{''.join(f'({prefix})?' for prefix in MODEL_PREFIXES)}"


class UsedAmounts(Struct, frozen=True):
    """What limits count of ended requests: tokens as charged, and the cost as far as it is known."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost_microusd: int = 0


async def read_used(connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime) -> UsedAmounts:
    """What a subject has used since a moment (with its zone), as far as it is stored in Postgres; spools may hold more.

    `scope`: values of the dimensions key (its public part, with nx-), team (its name), model, tag:NAME, shadow; or all. Cheap, except for
    a tag: no sums are kept by tags, so all inferences since then are read, which takes some seconds for each million of them.
    """
    if any(dimension.startswith("tag:") or dimension == "shadow" for dimension in scope):
        return await _read_from_inferences(connection, scope, since, None)
    # The sums are by full hours of UTC, and a day may begin within one: in India, at 18:30 UTC.
    full_since = first_full_hour(since)
    usage_table = tables.usage
    hourly_sums = select(
        func.sum(usage_table.c.requests),
        func.sum(usage_table.c.charged_input),
        func.sum(usage_table.c.charged_output),
        func.sum(usage_table.c.cost_microusd),
    )
    full_hours = await _read_sums(connection, hourly_sums.where(usage_table.c.hour >= full_since, *scope_conditions(usage_table, scope)))
    if full_since == since:
        return full_hours
    partial_hour = await _read_from_inferences(connection, scope, since, full_since)
    return UsedAmounts(
        full_hours.requests + partial_hour.requests,
        full_hours.input + partial_hour.input,
        full_hours.output + partial_hour.output,
        full_hours.cost_microusd + partial_hour.cost_microusd,
    )


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
    connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime, until: datetime.datetime | None
) -> UsedAmounts:
    columns = tables.inferences.c
    query = select(
        func.count(),
        func.sum(func.coalesce(columns.charged_input, columns.input_tokens, 0)),
        func.sum(func.coalesce(columns.charged_output, columns.output_tokens, 0)),
        func.sum(columns.cost_microusd),
    ).where(columns.id >= uuid7.lowest_at(_to_ms(since)), columns.received_at >= since, *scope_conditions(tables.inferences, scope))
    if until is not None:
        query = query.where(columns.id < uuid7.lowest_at(_to_ms(until)))
    return await _read_sums(connection, query)


async def _read_sums(connection: AsyncConnection, query: Select[*tuple[Any, ...]]) -> UsedAmounts:
    return UsedAmounts(*(int(each or 0) for each in (await connection.execute(query)).one()))


def scope_conditions(table: FromClause, scope: Mapping[str, str]) -> Iterator[ColumnElement[bool]]:
    """Conditions of a scope on a table with key_id, team_id and model; tags and shadow are columns of inferences only."""
    keys, teams = tables.keys.c, tables.teams.c
    for dimension, subject in scope.items():
        match dimension:
            case "key":
                yield table.c.key_id == select(keys.id).where(keys.prefix == subject.removeprefix("nx-")).scalar_subquery()
            case "team":
                yield table.c.team_id == select(teams.id).where(teams.name == subject).scalar_subquery()
            case "model":
                yield table.c.model.in_(caller_names(subject))
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
    return func.regexp_replace(recorded, _MODEL_PREFIX_PATTERN, "")


def caller_names(model: str) -> list[str]:
    """The names that callers may send for a model."""
    names = [model]
    for prefix in reversed(MODEL_PREFIXES):
        names += [prefix + name for name in names]
    return names


def first_full_hour(moment: datetime.datetime) -> datetime.datetime:
    """The first full hour of UTC at or after a moment."""
    utc = moment.astimezone(datetime.UTC)
    hour_start = utc.replace(minute=0, second=0, microsecond=0)
    return hour_start if hour_start == utc else hour_start + _HOUR


def _to_ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)
