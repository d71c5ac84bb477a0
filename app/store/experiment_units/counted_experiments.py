"""The experiments whose units are counted, and what of them the counting needs."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from app.domain.experiments import BUILT_IN_OUTCOMES, AnalysisConfig
from app.store.postgres.partitions import Connection

KEEP_UNITS_DAYS = 100  # after the end of an experiment: longer than feedback can count (90 days)
_PRE_PERIOD = timedelta(days=28)


class CountedExperiment(Struct, frozen=True):
    """The part of an experiment by which its units are counted. `unit` is as in ExperimentConfig."""

    id: str
    name: str
    unit: str
    salt: str
    started_at: datetime
    analysis: AnalysisConfig

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.analysis.metrics or BUILT_IN_OUTCOMES

    @property
    def has_feedback(self) -> bool:
        return any(metric not in BUILT_IN_OUTCOMES for metric in self.metrics)

    @property
    def pre_period(self) -> tuple[datetime, datetime]:
        """The days (UTC) from which its units may be known, the last exclusive."""
        until = self.started_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return until - _PRE_PERIOD, until

    @property
    def window_ms(self) -> int:
        return self.analysis.window_minutes * 60_000

    @property
    def feedback_ms(self) -> int:
        return self.analysis.feedback_hours * 3_600_000


# What comes after the units have gone would be counted as other units.
_EXPERIMENTS = f"""
    SELECT DISTINCT ON (of_name.name, of_name.number) of_name.name, of_name.number, experiments.id::text, experiments.salt,
        experiments.started_at, experiments.definition
    FROM unnest($1::text[], $2::int[]) AS of_name (name, number)
    JOIN experiments ON experiments.name = of_name.name AND experiments.started_at IS NOT NULL
        AND (experiments.ended_at IS NULL OR experiments.ended_at > now() - interval '{KEEP_UNITS_DAYS} days')
    JOIN experiment_versions ON experiment_versions.experiment_id = experiments.id AND experiment_versions.number = of_name.number
"""  # noqa: S608
_EXPERIMENTS_BY_ID = """
    SELECT name, id::text, salt, started_at, definition FROM experiments WHERE id = any($1::uuid[]) AND started_at IS NOT NULL
"""


async def find_experiments(connection: Connection, versions: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], CountedExperiment]:
    """Returns experiments by name and version. A version belongs to one experiment."""
    wanted = sorted(set(versions))
    rows = await connection.fetch(_EXPERIMENTS, [name for name, _ in wanted], [number for _, number in wanted]) if wanted else []
    return {(row["name"], row["number"]): _to_experiment(row) for row in rows}


async def read_experiments(connection: Connection, ids: Iterable[str]) -> Mapping[str, CountedExperiment]:
    rows = await connection.fetch(_EXPERIMENTS_BY_ID, sorted(set(ids)))
    return {row["id"]: _to_experiment(row) for row in rows}


def _to_experiment(row: Any) -> CountedExperiment:
    definition = msgspec.json.decode(row["definition"])
    analysis = msgspec.convert(definition.get("analysis", {}), AnalysisConfig)
    return CountedExperiment(row["id"], row["name"], definition["unit"], row["salt"], row["started_at"], analysis)
