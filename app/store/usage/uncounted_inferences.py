"""Inferences that are in no rollups, as a version from before these stored them: how many there are, where, and what sums have of them.

`rollups_since` says until when inferences may be missing. Whoever counts them goes back from there, and moves it.
"""

import datetime
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.inference_columns import ROW_EXPRESSIONS
from app.store.postgres.partitions import Connection
from app.store.postgres.tables import rollup_tables, subject_rollup_tables
from app.store.usage.rollups import REFUSED, Level, SubjectKey
from app.store.usage.sums import MAX_COLUMNS, SKETCH_COLUMNS, SUM_COLUMNS, Sums, sums_of

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY = datetime.timedelta(days=1)
_BATCH_ROWS = 2_000
_SUMS = ", ".join(f"rollups.{name}" for name in (*SUM_COLUMNS, *MAX_COLUMNS, *SKETCH_COLUMNS))

# By the day, as sums by day are kept for ever; and day by day, as usage may have expired.
_COUNT = """
    SELECT coalesce(sum(greatest(recorded.requests - coalesce(counted.requests, 0), 0)), 0)::bigint
    FROM (
        SELECT date_trunc('day', hour, 'UTC') AS day, sum(requests) AS requests FROM usage
        WHERE hour >= :begin AND hour < :end {of_teams} GROUP BY day
    ) AS recorded LEFT JOIN (
        SELECT time, sum(requests) AS requests FROM rollups_by_day_and_team JOIN rollup_groups ON rollup_groups.id = group_id
        WHERE time >= :begin AND time < :end AND outcome <> :refused {of_teams} GROUP BY time
    ) AS counted ON counted.time = recorded.day
"""


async def count_uncounted(
    connection: AsyncConnection,
    begin: datetime.datetime = EPOCH,
    end: datetime.datetime | None = None,
    only_teams: Collection[str] | None = None,
) -> int:
    """How many inferences of the days of a period are in no rollups, by the usage of each key, which has counted all.

    `only_teams` leaves those of teams with these names; None means all. 0 once everything that is still stored has been counted.
    """
    since: datetime.datetime = (await connection.execute(select(tables.rollups_since.c.since))).scalar_one()
    last = since if end is None else min(since, end)
    if last <= begin:
        return 0
    values: dict[str, Any] = {"begin": _day_of(begin), "end": _day_of(last - datetime.datetime.resolution) + _DAY, "refused": REFUSED}
    of_teams = ""
    if only_teams is not None:
        values["teams"] = sorted(only_teams)
        of_teams = "AND team_id IN (SELECT id FROM teams WHERE name = ANY(CAST(:teams AS text[])))"
    return await connection.scalar(text(_COUNT.format(of_teams=of_teams)), values) or 0


async def lock_since(connection: Connection) -> datetime.datetime:
    """Locks and returns the time until which inferences may be missing in rollups.

    Others who move it wait for the end of this transaction.
    """
    return await connection.fetchval("SELECT since FROM rollups_since FOR UPDATE")


async def move_since(connection: Connection, since: datetime.datetime) -> None:
    await connection.execute("UPDATE rollups_since SET since = $1", since)


async def find_newest(connection: Connection, before: datetime.datetime) -> datetime.datetime | None:
    """Returns when the newest inference before a time was received, to the millisecond.

    Returns None if there is none.
    """
    if before <= EPOCH:
        return None
    id = await connection.fetchval("SELECT id::text FROM inferences WHERE id < $1::uuid ORDER BY id DESC LIMIT 1", _lowest_id(before))
    return None if id is None else EPOCH + datetime.timedelta(milliseconds=uuid7.created_ms(id))


async def count_inferences(connection: Connection, begin: datetime.datetime, end: datetime.datetime) -> int:
    query = "SELECT count(*) FROM inferences WHERE id >= $1::uuid AND id < $2::uuid"
    return await connection.fetchval(query, _lowest_id(begin), _lowest_id(end))


async def count_in_sums(connection: Connection, level: Level, begin: datetime.datetime, end: datetime.datetime) -> int:
    query = f"""
        SELECT coalesce(sum(requests), 0)::bigint FROM {rollup_tables[level].name} JOIN rollup_groups ON id = group_id
        WHERE time >= $1 AND time < $2 AND outcome <> $3
    """  # noqa: S608
    return await connection.fetchval(query, begin, end, REFUSED)


async def read_inferences(
    connection: Connection, begin: datetime.datetime, end: datetime.datetime
) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
    """Rows of INFERENCE_COLUMNS, some at a time, in a transaction."""
    query = f"""
        SELECT {", ".join(ROW_EXPRESSIONS)}, inferences.id AS row_id FROM inferences
        WHERE id >= $1::uuid AND id < $2::uuid AND ($3::uuid IS NULL OR id > $3)
        ORDER BY row_id LIMIT {_BATCH_ROWS}
    """  # noqa: S608
    last_id: Any = None
    while batch := await connection.fetch(query, _lowest_id(begin), _lowest_id(end), last_id):
        yield [tuple(row)[:-1] for row in batch]
        last_id = batch[-1]["row_id"]


async def read_sums(connection: Connection, level: Level, begin: datetime.datetime, end: datetime.datetime) -> dict[tuple[int, int], Sums]:
    """Returns sums by time and group, without those of refused requests, which are no inferences."""
    rows = await connection.fetch(
        f"""
        SELECT time, group_id, {_SUMS} FROM {rollup_tables[level].name} AS rollups JOIN rollup_groups ON id = group_id
        WHERE time >= $1 AND time < $2 AND outcome <> $3
        """,  # noqa: S608
        *(begin, end, REFUSED),
    )
    return {(int(row["time"].timestamp()), row["group_id"]): sums_of(row) for row in rows}


async def read_subject_sums(connection: Connection, begin: datetime.datetime, end: datetime.datetime) -> dict[SubjectKey, Sums]:
    """Returns the sums of subjects by the hour."""
    rows = await connection.fetch(
        f"""
        SELECT dimension, value, time, group_id, team_id::text, {_SUMS} FROM {subject_rollup_tables["hour"].name} AS rollups
        WHERE time >= $1 AND time < $2
        """,  # noqa: S608
        *(begin, end),
    )
    return {
        SubjectKey(row["dimension"], row["value"], int(row["time"].timestamp()), row["group_id"], row["team_id"]): sums_of(row)
        for row in rows
    }


def _lowest_id(moment: datetime.datetime) -> str:
    return uuid7.lowest_at((moment - EPOCH) // datetime.timedelta(milliseconds=1))


def _day_of(moment: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
