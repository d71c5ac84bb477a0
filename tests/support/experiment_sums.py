"""Sums of an experiment's units, written as if they had been counted: for tests of what follows from them."""

import datetime
from collections.abc import Mapping

from app.store.experiment_units.sums import COUNT_NAMES, SUM_NAMES, CountKey, SumKey, add_sums
from app.store.postgres.database import connect

_MICRO = 1_000_000


async def add_units(
    database_url: str, experiment: str, arm: str, units: int, metrics: Mapping[str, int], *, version: int = 1, kind: str = "minted"
) -> None:
    """Complete units of the newest experiment of that name. `metrics`: how many of the units have it, each a metric of 0 or 1."""
    connection = await connect(database_url)
    try:
        id = str(await connection.fetchval("SELECT id FROM experiments WHERE name = $1 ORDER BY created_at DESC LIMIT 1", experiment))
        sums: dict[SumKey, list[int]] = {}
        for metric, ones in metrics.items():
            y = ones * _MICRO
            named = {"n": units, "y": y, "yy": y * _MICRO, "zeros": units - ones, "ones": ones, "uncapped": y}
            sums[SumKey(id, metric, "", "", version, kind, arm)] = [named.get(name, 0) for name in SUM_NAMES]
        counted = {"units": units, "measured": units, "complete": units, "inferences": units, "episodes": units}
        counts = {
            CountKey(id, version, kind, arm, datetime.datetime.now(datetime.UTC).date()): [counted.get(name, 0) for name in COUNT_NAMES]
        }
        async with connection.transaction():
            await add_sums(connection, sums, counts)
    finally:
        await connection.close()


async def put_in_force(database_url: str, experiment: str, days_ago: float) -> None:
    """Puts all versions of an experiment in force, as if they had been made this many days earlier."""
    connection = await connect(database_url)
    try:
        await connection.execute(
            "UPDATE experiment_versions SET effective_at = effective_at - make_interval(secs => $2) WHERE experiment_id IN"
            " (SELECT id FROM experiments WHERE name = $1)",
            *(experiment, days_ago * 86_400),
        )
    finally:
        await connection.close()
