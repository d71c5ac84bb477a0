"""The series of a result: what it said at the end of each day, by the code that reads results."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.experiments import BUILT_IN_OUTCOMES, MetricConfig
from app.process.thread_steps import in_steps, run_in_steps
from app.results.experiments.metric_facts import metric_facts, metric_names
from app.results.experiments.read import Counts, Reading
from app.results.experiments.results import MetricUnit, Range
from app.results.statistics.compare import Verdict
from app.results.units.outcomes import cap_of, scale_of
from app.store.configuration.metric_queries import read_metrics
from app.store.experiment_units.sums import SumKey, read_counts, read_sums
from app.store.experiment_units.sums_by_day import DaySums, read_sums_by_day
from app.store.experiments.queries import ExperimentRow, read_weights

MAX_POINTS = 366
_DAY = datetime.timedelta(days=1)


class SeriesPoint(Struct, frozen=True, kw_only=True):
    """The result at the end of a day (UTC), or now."""

    at: Annotated[datetime.datetime, Meta(description="The end of the day; of the last point the time of reading.")]
    units: Annotated[Mapping[str, int], Meta(description="Complete units with a value, by arm.")]
    difference: Annotated[float | None, Meta(description="Arm less control, in the metric's own unit.")]
    interval: Annotated[Range | None, Meta(description="Of the difference; holds at all looks together.")]
    verdict: Annotated[Verdict, Meta(description="What could be concluded then.")]
    p: Annotated[float, Meta(description="Valid at any time.")]
    sample_ratio_p: Annotated[float, Meta(description="Of the check that arms had units as their weights say.")]


class ResultSeries(Struct, frozen=True, kw_only=True):
    """The result of a metric at the end of each day. The last point agrees with the results."""

    metric: Annotated[str, Meta(description="The metric.")]
    arm: Annotated[str, Meta(description="The arm that is compared with the control.")]
    control: Annotated[str, Meta(description="The control.")]
    unit: Annotated[MetricUnit, Meta(description="The metric's own unit.")]
    alpha: Annotated[float, Meta(description="Of this comparison, after the split over arms and metrics.")]
    complete: Annotated[bool, Meta(description="All units are still kept; false: some time after its end, they are not.")]
    data: Annotated[Sequence[SeriesPoint], Meta(description="The newest 366 days, the oldest first.")]


async def read_series(connection: AsyncConnection, experiment: ExperimentRow, metric: str, arm: str) -> ResultSeries:
    """Returns the series of an experiment that has started. `metric` and `arm` must be its own."""
    declared = await read_metrics(connection)
    weights = await read_weights(connection, experiment.id)
    counts = await read_counts(connection, experiment.id)
    sums = await read_sums(connection, experiment.id, metrics=[metric])
    analysis = experiment.analysis
    is_built_in = metric in BUILT_IN_OUTCOMES
    by_day = await read_sums_by_day(
        connection,
        experiment.id,
        metric,
        position=metric_names(experiment).index(metric) + 1,
        one=scale_of(metric),
        cap=cap_of(analysis, metric),
        lasts_s=analysis.window_minutes * 60 if is_built_in else analysis.feedback_hours * 3600,
    )
    of_results = sum(values["n"] for _, values in sums)
    now = datetime.datetime.now(datetime.UTC)
    return await run_in_steps(lambda: _series(experiment, weights, counts, declared, by_day, of_results, metric, arm, now))


def _series(
    experiment: ExperimentRow,
    weights: Mapping[int, Mapping[str, float]],
    counts: Counts,
    declared: Mapping[str, MetricConfig],
    by_day: Sequence[DaySums],
    of_results: int,
    metric: str,
    arm: str,
    now: datetime.datetime,
) -> ResultSeries:
    facts = next(each for each in metric_facts(experiment, declared) if each.name == metric)
    points = [_point(experiment, weights, counts, declared, by_day, metric, arm, at) for at in in_steps(_moments(experiment, by_day, now))]
    return ResultSeries(
        metric=metric,
        arm=arm,
        control=experiment.control,
        unit=facts.unit,
        alpha=facts.plan.alpha,
        complete=sum(values["n"] for _, _, values in by_day) == of_results,
        data=points,
    )


def _moments(experiment: ExperimentRow, by_day: Sequence[DaySums], now: datetime.datetime) -> Sequence[datetime.datetime]:
    """The ends of the days from the start until units no longer come to count, and then the present if that is on a day of its own."""
    assert experiment.started_at is not None, "a draft has no results"
    first = datetime.datetime.fromisoformat(experiment.started_at).astimezone(datetime.UTC).date()
    last = now.date()
    if experiment.ended_at is not None:
        ended = datetime.datetime.fromisoformat(experiment.ended_at).astimezone(datetime.UTC).date()
        last = min(last, max([ended, *(day for day, _, _ in by_day)]))
    days = [first + number * _DAY for number in range((last - first).days + 1)][-MAX_POINTS:]
    ends = [datetime.datetime.combine(day + _DAY, datetime.time(), datetime.UTC) for day in days]
    return [min(end, now) for end in ends]


def _point(
    experiment: ExperimentRow,
    weights: Mapping[int, Mapping[str, float]],
    counts: Counts,
    declared: Mapping[str, MetricConfig],
    by_day: Sequence[DaySums],
    metric: str,
    arm: str,
    at: datetime.datetime,
) -> SeriesPoint:
    last_day = (at - datetime.timedelta(microseconds=1)).date()
    sums: dict[SumKey, dict[str, int]] = {}
    for day, key, values in by_day:
        if day <= last_day:
            added = sums.setdefault(key, dict.fromkeys(values, 0))
            for name, value in values.items():
                added[name] += value
    seen = [(key, values) for key, values in counts if key.day <= last_day]
    results = Reading(experiment, weights, seen, declared, at, arm).results(list(sums.items()), [], [metric])
    [found] = results.metrics
    [comparison] = found.comparisons
    return SeriesPoint(
        at=at,
        units={each.arm: each.units for each in found.arms},
        difference=comparison.difference,
        interval=comparison.interval,
        verdict=comparison.verdict,
        p=comparison.p,
        sample_ratio_p=results.sample_ratio.p,
    )
