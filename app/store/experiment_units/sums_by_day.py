"""Sums over the units of an experiment by the day on which they came to count, as far as units are still kept."""

import datetime
from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.experiment_units.sums import SUM_NAMES, SumKey

# Of the first inference: a UUIDv7 begins with its time in milliseconds.
_BEGAN = "to_timestamp(('x' || left(replace(first_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)"
_BY_DAY = text(f"""
    SELECT day, version, episode_kind, arm, count(*) AS n, sum(y) AS y, sum(y * y) AS yy,
        count(*) FILTER (WHERE y = 0) AS zeros, count(*) FILTER (WHERE y = :one) AS ones,
        sum(x) AS x, sum(x * x) AS xx, sum(x * y) AS xy, count(*) FILTER (WHERE y < value) AS capped, sum(value) AS uncapped
    FROM (
        SELECT
            (({_BEGAN} + make_interval(secs => :lasts_s)) AT TIME ZONE 'UTC')::date AS day, version, episode_kind, arm,
            measured[:position] AS value, least(measured[:position], CAST(:cap AS numeric)) AS y,
            coalesce(covariates[:position], 0)::numeric AS x
        FROM experiment_units
        WHERE experiment_id = CAST(:experiment_id AS uuid) AND excluded IS NULL AND measured[:position] IS NOT NULL
    ) AS counted
    GROUP BY day, version, episode_kind, arm ORDER BY day, version, episode_kind, arm
""")  # noqa: S608

DaySums = tuple[datetime.date, SumKey, Mapping[str, int]]


async def read_sums_by_day(
    connection: AsyncConnection, experiment_id: str, metric: str, *, position: int, one: int, cap: int | None, lasts_s: int
) -> list[DaySums]:
    """Reads what each day adds to the sums of a metric.

    `position` is the metric's among those of the experiment, from 1 on; `one` the integer that makes 1 in its
    own unit, `cap` its cap in such integers, and `lasts_s` how long after its first inference a unit counts.
    """
    values: dict[str, Any] = {"experiment_id": experiment_id, "position": position, "one": one, "cap": cap, "lasts_s": lasts_s}
    rows = (await connection.execute(_BY_DAY, values)).all()
    return [
        (
            row.day,
            SumKey(experiment_id, metric, "", "", row.version, row.episode_kind, row.arm),
            {name: int(getattr(row, name)) for name in SUM_NAMES},
        )
        for row in rows
    ]
