"""The sums of an experiment as strata, from which all statistics start."""

from collections.abc import Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from app.results.statistics.sums import Stratum, UnitSums
from app.results.units.outcomes import scale_of
from app.store.experiment_units.sums import SumKey, read_sums
from app.store.experiments.queries import ExperimentRow, read_weights


async def read_strata(
    connection: AsyncConnection, experiment: ExperimentRow, metrics: Sequence[str] | None = None
) -> Mapping[str, Sequence[Stratum]]:
    """Returns the strata by metric, in the metric's own unit, the versions in their order.

    If `metrics` is None, all of them are read. Only complete units are in the strata.
    """
    sums = await read_sums(connection, experiment.id, metrics=metrics)
    return build_strata(experiment, await read_weights(connection, experiment.id), sums)


def build_strata(
    experiment: ExperimentRow, weights: Mapping[int, Mapping[str, float]], sums: Sequence[tuple[SumKey, Mapping[str, int]]]
) -> Mapping[str, Sequence[Stratum]]:
    by_metric: dict[str, dict[tuple[int, str], dict[str, UnitSums]]] = {}
    for key, values in sums:
        of_stratum = by_metric.setdefault(key.metric, {}).setdefault((key.version, key.episode_kind), {})
        of_stratum[key.arm] = _to_sums(key.metric, values)
    return {
        metric: [
            Stratum(version, kind or None, probabilities_of(experiment, weights, version, kind), arms)
            for (version, kind), arms in sorted(strata.items())
        ]
        for metric, strata in by_metric.items()
    }


def probabilities_of(experiment: ExperimentRow, weights: Mapping[int, Mapping[str, float]], version: int, kind: str) -> Mapping[str, float]:
    """Returns the probabilities with which a unit that takes part is assigned to each arm.

    Those of a unit without a time of birth are by the first version's weights.
    """
    has_birth = experiment.unit == "episode" and kind != "text"
    of_version = weights[version if has_birth else min(weights)]
    total = sum(of_version.values())
    return {arm: weight / total for arm, weight in of_version.items()}


def _to_sums(metric: str, values: Mapping[str, int]) -> UnitSums:
    scale = scale_of(metric)
    y, x = values["y"] / scale, values["x"] / scale
    yy, xx, xy = (values[name] / scale**2 for name in ("yy", "xx", "xy"))
    return UnitSums(values["n"], y, yy, values["zeros"], values["ones"], x, xx, xy)
