"""The feedback on units in the days before their experiment, by the unit's hash: from it the feedback that they get in it is expected.

A scan of the feedback finds it, piece by piece; units are measured once that of their experiment is finished.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from app.domain import uuid7
from app.domain.experiment_unit import draw_enrolment, team_unit, value_unit
from app.store.experiment_units.counted_experiments import CountedExperiment
from app.store.experiment_units.unit_measurements import VALUE_IN_MILLIONTHS, rounded_mean
from app.store.experiment_units.units import UnitKey
from app.store.postgres.locks import ERASED
from app.store.postgres.partitions import Connection
from app.store.records.feedback_targets import TargetKey, find_targets

_LOWEST_ID = "00000000-0000-0000-0000-000000000000"

# Units that are episodes do not return: nothing is known of them from before.
_UNFINISHED = """
    SELECT experiments.id::text, coalesce(scan.after::text, $1) AS after
    FROM experiments LEFT JOIN pre_period_scans AS scan ON scan.experiment_id = experiments.id
    WHERE experiments.started_at IS NOT NULL AND experiments.definition ->> 'unit' <> 'episode' AND scan.finished_at IS NULL
    ORDER BY experiments.started_at
"""
_FEEDBACK = f"""
    SELECT id::text, level, team_id::text, target_id::text, metric, {VALUE_IN_MILLIONTHS} AS value,
        is_current AND number IS NOT NULL AND metric = any($5::text[]) AS counts
    FROM feedback WHERE id > $1::uuid AND id >= $2::uuid AND id < $3::uuid ORDER BY id LIMIT $4
"""  # noqa: S608
_ADD = """
    INSERT INTO pre_period_feedback AS stored (experiment_id, unit, metric, events, total)
    SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::numeric[])
    ON CONFLICT (experiment_id, unit, metric) DO UPDATE
    SET events = stored.events + excluded.events, total = stored.total + excluded.total
"""
_MOVE = """
    INSERT INTO pre_period_scans (experiment_id, after) VALUES ($1, $2)
    ON CONFLICT (experiment_id) DO UPDATE SET after = excluded.after
"""
# PostgreSQL divides numbers to as many digits as they show, or 16 in all: means of large values would be rounded twice.
_MEANS = """
    SELECT metric, floor(avg((total + 0.00000000000000000000) / events) + 0.5)::bigint AS mean FROM pre_period_feedback
    WHERE experiment_id = $1 AND metric = any($2::text[]) GROUP BY metric
"""
_FINISH = """
    INSERT INTO pre_period_scans (experiment_id, after, finished_at, means) VALUES ($1, $2, now(), $3)
    ON CONFLICT (experiment_id) DO UPDATE SET finished_at = excluded.finished_at, means = excluded.means
"""
_TOTALS = """
    SELECT experiment_id::text, unit, metric, events, total FROM pre_period_feedback
    WHERE (experiment_id, unit) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""
_READ_MEANS = "SELECT experiment_id::text, means FROM pre_period_scans WHERE experiment_id = any($1::uuid[]) AND finished_at IS NOT NULL"

_decode_means = msgspec.json.Decoder(dict[str, int]).decode


class Scan(NamedTuple):
    """How far the scan of an experiment is."""

    experiment_id: str
    after: str  # the last event that was looked at


class Event(NamedTuple):
    """A value of feedback before the experiment."""

    unit: str  # its hash
    metric: str
    value: int  # in millionths


async def unfinished_scans(connection: Connection) -> list[Scan]:
    """The oldest experiment first."""
    return [Scan(*row) for row in await connection.fetch(_UNFINISHED, _LOWEST_ID)]


async def read_events(
    connection: Connection, experiment: CountedExperiment, metrics: Sequence[str], after: str, limit: int
) -> tuple[list[Event], str | None]:
    """Reads the next `limit` events, and returns those that are of these metrics and count.

    The second value is the id of the last event that was read, or None if there are no more events.
    """
    bounds = [uuid7.lowest_at(int(moment.timestamp() * 1000)) for moment in experiment.pre_period]
    rows = await connection.fetch(_FEEDBACK, after, *bounds, limit, metrics)
    counting = [(TargetKey(row["level"], row["team_id"], row["target_id"]), row) for row in rows if row["counts"]]
    targets = await find_targets(connection, [key for key, _ in counting])
    events: list[Event] = []
    for key, row in counting:
        target = targets.get(key)
        unit = None if target is None else _unit(experiment, key.team_id, target.end_user, target.tags)
        if unit is not None:
            events.append(Event(unit, row["metric"], int(row["value"])))
    return events, rows[-1]["id"] if len(rows) == limit else None


async def add_events(connection: Connection, experiment_id: str, events: Sequence[Event]) -> None:
    sums: dict[tuple[str, str], list[int]] = {}
    for unit, metric, value in events:
        of_unit = sums.setdefault((unit, metric), [0, 0])
        of_unit[0] += 1
        of_unit[1] += value
    if sums:
        units, metrics = zip(*sums, strict=True)
        await connection.execute(_ADD, experiment_id, units, metrics, *zip(*sums.values(), strict=True))


async def move_scan(connection: Connection, scan: Scan) -> None:
    """It goes on there."""
    await connection.execute(_MOVE, *scan)


async def finish_scan(connection: Connection, experiment_id: str, metrics: Collection[str]) -> None:
    """Ends the scan of an experiment; `metrics` are those that get covariates.

    A unit without feedback is expected to get what others got in the mean.
    """
    means = {row["metric"]: row["mean"] for row in await connection.fetch(_MEANS, experiment_id, list(metrics))}
    await connection.execute(_FINISH, experiment_id, _LOWEST_ID, msgspec.json.encode(means).decode())


async def read_expected_feedback(connection: Connection, keys: Sequence[UnitKey]) -> list[Mapping[str, int]]:
    """The mean by metric before the experiment, in millionths, in the same order; without metrics on which nobody gave any."""
    if not keys:
        return []
    ids = [key.experiment_id for key in keys]
    means = {row["experiment_id"]: _decode_means(row["means"]) for row in await connection.fetch(_READ_MEANS, sorted(set(ids)))}
    own: dict[UnitKey, dict[str, int]] = {}
    for row in await connection.fetch(_TOTALS, ids, [key.unit for key in keys]):
        own.setdefault(UnitKey(row["experiment_id"], row["unit"]), {})[row["metric"]] = rounded_mean(int(row["total"]), row["events"])
    return [{**means.get(key.experiment_id, {}), **own.get(key, {})} for key in keys]


async def forget_pre_period(connection: Connection, experiment_id: str, units: Sequence[str]) -> None:
    """Deletes what was stored of units, which are given by their hashes."""
    await connection.execute("DELETE FROM pre_period_feedback WHERE experiment_id = $1 AND unit = any($2::text[])", experiment_id, units)


def _unit(experiment: CountedExperiment, team_id: str, end_user: str | None, tags: str | None) -> str | None:
    """The hash of the unit that an inference is of; None: it is of none, or was erased."""
    if experiment.unit == "team":
        return draw_enrolment(experiment.salt, team_unit(team_id)).hex()
    value: Any = end_user if experiment.unit == "user" else msgspec.json.decode(tags or "{}").get(experiment.unit.removeprefix("tag:"))
    return None if value in (None, ERASED) else draw_enrolment(experiment.salt, value_unit(team_id, value)).hex()
