"""Usage: what was used, by whom and when, read from the sums that the writer keeps."""

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
# What is recorded is the name that the caller said, with what may stand before it.
_BEFORE_A_NAME = f"^{''.join(f'({prefix})?' for prefix in MODEL_PREFIXES)}"


class Used(Struct, frozen=True):
    """What limits count of requests that have ended: tokens as charged, and what they cost as far as that is known."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost_microusd: int = 0


async def used(connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime) -> Used:
    """What a subject has used since a moment (with its zone), as far as it is in Postgres: what spools still hold is not.

    `scope`: values of the dimensions key (its public part, with nx-), team (its name), model, tag:NAME; or all. Cheap, but for a tag: no
    sums are kept by tags, so all inferences since then are read, which are some seconds for each million of them.
    """
    if any(dimension.startswith("tag:") for dimension in scope):
        return await _of_inferences(connection, scope, since, None)
    # The sums are of whole hours of UTC, and a day may begin within one: in India, half past six in the evening.
    first = _full_hour(since)
    of = tables.usage
    rolled_up = select(func.sum(of.c.requests), func.sum(of.c.charged_input), func.sum(of.c.charged_output), func.sum(of.c.cost_microusd))
    whole = await _sum(connection, rolled_up.where(of.c.hour >= first, *_conditions(of, scope)))
    if first == since:
        return whole
    begun = await _of_inferences(connection, scope, since, first)
    return Used(
        whole.requests + begun.requests,
        whole.input + begun.input,
        whole.output + begun.output,
        whole.cost_microusd + begun.cost_microusd,
    )


class Asked(Struct, frozen=True):
    """A question after usage: of one key or team (their ids), from one full hour until before another, days and months in a time zone."""

    key_id: str | None
    team_id: str | None
    begin: datetime.datetime
    end: datetime.datetime
    group_by: tuple[Group, ...] = ()
    time_zone: str = "UTC"


async def list_usage(connection: AsyncConnection, asked: Asked, most: int) -> list[dict[str, Any]]:
    """A row for each group in which there was anything, in order of time and name, with SUMS; at most so many."""
    of = tables.usage.c
    groups = [_group(name, asked.time_zone).label(f"by_{name}") for name in asked.group_by]
    query = select(*groups, *(func.coalesce(func.sum(of[name]), 0).label(name) for name in SUMS)).where(
        of.hour >= asked.begin, of.hour < asked.end
    )
    if asked.key_id is not None:
        query = query.where(of.key_id == asked.key_id)
    if asked.team_id is not None:
        query = query.where(of.team_id == asked.team_id)
    if "key" in asked.group_by:
        query = query.join(tables.keys, tables.keys.c.id == of.key_id)
    names = [group.name for group in groups]  # by their names, as the time zone in them is a parameter, which is another each time
    rows = await connection.execute(query.group_by(*names).order_by(*names).limit(most))
    return [_told(row._mapping, asked.group_by) for row in rows]  # pyright: ignore[reportPrivateUsage]


def _group(name: Group, time_zone: str) -> ColumnElement[Any]:
    of = tables.usage.c
    match name:
        case "hour":
            return of.hour
        case "day" | "month":
            return func.date_trunc(name, of.hour, time_zone)
        case "model":
            return func.regexp_replace(of.model, _BEFORE_A_NAME, "")
        case "key":
            return "nx-" + tables.keys.c.prefix


def _told(row: Mapping[Any, Any], group_by: Sequence[Group]) -> dict[str, Any]:
    return {**{name: row[f"by_{name}"] for name in group_by}, **{name: int(row[name]) for name in SUMS}}


async def _of_inferences(
    connection: AsyncConnection, scope: Mapping[str, str], since: datetime.datetime, until: datetime.datetime | None
) -> Used:
    of = tables.inferences.c
    query = select(
        func.count(),
        func.sum(func.coalesce(of.charged_input, of.input_tokens, 0)),
        func.sum(func.coalesce(of.charged_output, of.output_tokens, 0)),
        func.sum(of.cost_microusd),
    ).where(of.id >= uuid7.first_at(_ms(since)), of.received_at >= since, *_conditions(tables.inferences, scope))
    if until is not None:
        query = query.where(of.id < uuid7.first_at(_ms(until)))
    return await _sum(connection, query)


async def _sum(connection: AsyncConnection, query: Select[*tuple[Any, ...]]) -> Used:
    return Used(*(int(each or 0) for each in (await connection.execute(query)).one()))


def _conditions(table: FromClause, scope: Mapping[str, str]) -> Iterator[ColumnElement[bool]]:
    """Of a table with the columns of who asked for what; of inferences also by tags."""
    keys, teams = tables.keys.c, tables.teams.c
    for dimension, of in scope.items():
        match dimension:
            case "key":
                yield table.c.key_id == select(keys.id).where(keys.prefix == of.removeprefix("nx-")).scalar_subquery()
            case "team":
                yield table.c.team_id == select(teams.id).where(teams.name == of).scalar_subquery()
            case "model":
                yield table.c.model.in_(_asked_for(of))
            case "all":
                pass
            case _ if dimension.startswith("tag:"):
                yield table.c.tags[dimension.removeprefix("tag:")].astext == of
            case _:
                raise ValueError(f"There is no dimension {dimension!r}")


def _asked_for(model: str) -> list[str]:
    """The names by which callers mean it."""
    names = [model]
    for prefix in reversed(MODEL_PREFIXES):
        names += [prefix + name for name in names]
    return names


def _full_hour(moment: datetime.datetime) -> datetime.datetime:
    """The first full hour at or after it."""
    utc = moment.astimezone(datetime.UTC)
    begun = utc.replace(minute=0, second=0, microsecond=0)
    return begun if begun == utc else begun + _HOUR


def _ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)
