"""The facts of a running experiment, from Postgres."""

from datetime import UTC, datetime

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.experiments import ExperimentConfig
from app.results.guard.facts import ExperimentFacts
from app.store.experiments.queries import ExperimentRow, ExperimentVersionRow, find_settings, newest_versions, read_metrics


async def read_facts(connection: AsyncConnection, row: ExperimentRow) -> ExperimentFacts | None:
    """Returns the facts, or None if the experiment does not run, or no version of it is in force yet."""
    settings = await find_settings(connection, row)
    version = (await newest_versions(connection, [row.id])).get(row.id)
    if settings is None or version is None or row.status != "running" or not is_in_force(version):
        return None
    config = msgspec.convert(settings, ExperimentConfig)
    return ExperimentFacts(
        id=row.id,
        name=row.name,
        unit=row.unit,
        control=row.control,
        arms=config.arms,
        stopped=config.stopped,
        analysis=row.analysis,
        declared=await read_metrics(connection, row.analysis.metrics),
        version=version.number,
        adaptive=config.adaptive,
        is_settled=version.arms == config.arms,
    )


def is_in_force(version: ExperimentVersionRow) -> bool:
    return datetime.fromisoformat(version.effective_at) <= datetime.now(UTC)
