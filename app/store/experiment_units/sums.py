"""Sums over the units of experiments in Postgres: by arm and metric, and how many units there are of each day."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables
from app.store.postgres.partitions import Connection

SUM_NAMES = ("n", "y", "yy", "zeros", "ones", "x", "xx", "xy", "capped", "uncapped")
COUNT_NAMES = ("units", "excluded", "measured", "complete", "inferences", "episodes", "served_by_other")


class SumKey(NamedTuple):
    """The key of sums over units."""

    experiment_id: str
    metric: str
    slice: str  # the name of a tag; empty: all units
    value: str  # of the tag
    version: int
    episode_kind: str
    arm: str


class CountKey(NamedTuple):
    """The key of a count of units."""

    experiment_id: str
    version: int
    episode_kind: str
    arm: str
    day: datetime.date  # (UTC) of the first inference


_SUM_TYPES = {
    **{"experiment_id": "uuid", "version": "integer"},
    **dict.fromkeys(("n", "zeros", "ones", "capped"), "bigint"),
    **dict.fromkeys(("y", "yy", "x", "xx", "xy", "uncapped"), "numeric"),
}
_COUNT_TYPES = {"experiment_id": "uuid", "version": "integer", "day": "date", **dict.fromkeys(COUNT_NAMES, "bigint")}


def _add_statement(table: str, keys: Sequence[str], values: Sequence[str], types: Mapping[str, str]) -> str:
    names = [*keys, *values]
    return f"""
        INSERT INTO {table} AS stored ({", ".join(names)})
        SELECT {", ".join(names)} FROM unnest({", ".join(f"${at}::{types.get(name, 'text')}[]" for at, name in enumerate(names, 1))})
            AS added ({", ".join(names)})
        ON CONFLICT ({", ".join(keys)}) DO UPDATE SET {", ".join(f"{name} = stored.{name} + excluded.{name}" for name in values)}
    """  # noqa: S608


_DELETE_EMPTY = f"""
    DELETE FROM experiment_sums AS stored
    USING unnest({", ".join(f"${at}::{_SUM_TYPES.get(name, 'text')}[]" for at, name in enumerate(SumKey._fields, 1))})
        AS changed ({", ".join(SumKey._fields)})
    WHERE {" AND ".join(f"stored.{name} = changed.{name}" for name in SumKey._fields)} AND stored.n = 0
"""  # noqa: S608
_ADD_SUMS = _add_statement("experiment_sums", SumKey._fields, SUM_NAMES, _SUM_TYPES)
_ADD_COUNTS = _add_statement("experiment_counts", CountKey._fields, COUNT_NAMES, _COUNT_TYPES)


async def add_sums(connection: Connection, sums: Mapping[SumKey, Sequence[int]], counts: Mapping[CountKey, Sequence[int]]) -> None:
    """Add what changed, in the order of SUM_NAMES and COUNT_NAMES; whoever does holds the lock of lock_counting()."""
    for statement, added in ((_ADD_SUMS, sums), (_ADD_COUNTS, counts)):
        rows = [(*key, *values) for key, values in added.items() if any(values)]
        if rows:
            await connection.execute(statement, *([*column] for column in zip(*rows, strict=True)))
    left = [key for key, values in sums.items() if key.slice and values[0] < 0]
    if left:  # a value that no unit has any more may have named somebody
        await connection.execute(_DELETE_EMPTY, *([*column] for column in zip(*left, strict=True)))


# From value to value along the primary key: each is there for every version and arm, of which there may be thousands.
_SLICE_VALUES = """
    WITH RECURSIVE found AS (
        (SELECT metric, slice, value FROM experiment_sums WHERE experiment_id = $1::uuid ORDER BY metric, slice, value LIMIT 1)
        UNION ALL
        SELECT following.* FROM found CROSS JOIN LATERAL (
            SELECT metric, slice, value FROM experiment_sums
            WHERE experiment_id = $1::uuid AND (metric, slice, value) > (found.metric, found.slice, found.value)
            ORDER BY metric, slice, value LIMIT 1
        ) AS following
    )
    SELECT DISTINCT slice, value FROM found WHERE slice <> ''
"""


async def read_slice_values(connection: Connection, experiment_id: str) -> dict[str, set[str]]:
    """The values by which units are summed up, by the name of a tag."""
    rows = await connection.fetch(_SLICE_VALUES, experiment_id)
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["slice"], set()).add(row["value"])
    return found


async def read_sums(
    connection: AsyncConnection, experiment_id: str, *, metrics: Sequence[str] | None = None, slice: str = ""
) -> list[tuple[SumKey, Mapping[str, int]]]:
    """Reads the sums of an experiment. `metrics` None means all. `slice` is the name of a tag; empty means all units."""
    columns = tables.experiment_sums.c
    query = select(tables.experiment_sums).where(columns.experiment_id == experiment_id, columns.slice == slice)
    if metrics is not None:
        query = query.where(columns.metric.in_(metrics))
    rows = (await connection.execute(query.order_by(*tables.experiment_sums.primary_key))).all()
    return [(SumKey(*(getattr(row, name) for name in SumKey._fields)), _integers(row, SUM_NAMES)) for row in rows]


async def read_counts(connection: AsyncConnection, experiment_id: str) -> list[tuple[CountKey, Mapping[str, int]]]:
    columns = tables.experiment_counts.c
    query = select(tables.experiment_counts).where(columns.experiment_id == experiment_id).order_by(*tables.experiment_counts.primary_key)
    rows = (await connection.execute(query)).all()
    return [(CountKey(*(getattr(row, name) for name in CountKey._fields)), _integers(row, COUNT_NAMES)) for row in rows]


def _integers(row: Any, names: Sequence[str]) -> Mapping[str, int]:
    return {name: int(getattr(row, name)) for name in names}
