"""Reading results: from the kept sums to comparisons, of every arm and metric."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite

from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.experiments import MetricConfig
from app.process.thread_steps import in_steps, run_in_steps
from app.results.experiments.arm_units import Counts, arm_units, count_by_arm
from app.results.experiments.forecast import Forecast
from app.results.experiments.metric_facts import MetricFacts, metric_facts, metric_names
from app.results.experiments.results import ArmComparison, ArmValue, ExperimentResults, MetricResult, Part, Range, SampleRatioCheck
from app.results.experiments.sentences import conclusion_of, lost_values_warning, mismatch_warning
from app.results.experiments.strata import build_strata, probabilities_of
from app.results.statistics.compare import Comparison, compare
from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.estimate import arm_estimate
from app.results.statistics.sample_ratio import SampleRatio, sample_ratio, sample_ratio_of
from app.results.statistics.sums import Stratum
from app.results.units.outcomes import scale_of
from app.store.configuration.metric_queries import read_metrics
from app.store.experiment_units.sums import SumKey, read_counts, read_sums
from app.store.experiments.queries import ExperimentRow, read_weights

_MAX_VALUES_SHOWN = 20  # of a slice

Sums = Sequence[tuple[SumKey, Mapping[str, int]]]


async def read_results(
    connection: AsyncConnection,
    experiment: ExperimentRow,
    metrics: Sequence[str] | None = None,
    slice: str | None = None,
    *,
    arm: str | None = None,
) -> ExperimentResults:
    """Returns the results of an experiment that has started.

    If `metrics` is None, all of its metrics are read. With `slice`, a tag of its `slices`, results are shown
    by the tag's values, too: those of `metrics`, else of the primary one, because each value costs as much as
    all units. If `arm` is None, all arms are compared with the control, else only this one.
    """
    declared = await read_metrics(connection)
    weights = await read_weights(connection, experiment.id)
    counts = await read_counts(connection, experiment.id)
    sums = await read_sums(connection, experiment.id, metrics=metrics)
    of_slice = metrics or metric_names(experiment)[:1]
    sliced = await read_sums(connection, experiment.id, metrics=of_slice, slice=slice) if slice is not None else []
    now = datetime.now(UTC)
    reading = Reading(experiment, weights, counts, declared, now, arm)
    return await run_in_steps(lambda: reading.results(sums, sliced, metrics))


class Reading:
    def __init__(
        self,
        experiment: ExperimentRow,
        weights: Mapping[int, Mapping[str, float]],
        counts: Counts,
        declared: Mapping[str, MetricConfig],
        now: datetime,
        arm: str | None,
    ) -> None:
        self._experiment = experiment
        self._weights = weights
        self._counts = counts
        self._facts = metric_facts(experiment, declared)
        self._now = now
        self._others = [each for each in experiment.arms if each != experiment.control and arm in (None, each)]
        self._by_arm = count_by_arm(counts)
        self._forecast = Forecast(experiment, weights, counts, self._by_arm, now)

    def results(self, sums: Sums, sliced: Sums, metrics: Sequence[str] | None) -> ExperimentResults:
        experiment, analysis = self._experiment, self._experiment.analysis
        found = [self._metric(each, sums, sliced) for each in in_steps(self._facts) if metrics is None or each.name in metrics]
        split = self._assigned()
        return ExperimentResults(
            id=experiment.id,
            name=experiment.name,
            status=experiment.status,
            unit=experiment.unit,
            control=experiment.control,
            alpha=analysis.alpha,
            planned_units=analysis.planned_units,
            started_at=experiment.started_at,
            ended_at=experiment.ended_at,
            read_at=self._now,
            window_minutes=analysis.window_minutes,
            feedback_hours=analysis.feedback_hours,
            slices=analysis.slices,
            units_per_day=self._forecast.units_per_day,
            conclusion=self._conclusion(found, split),
            warnings=self._warnings(found, split),
            sample_ratio=_check(split),
            arms=arm_units(experiment.arms, self._weights, self._by_arm),
            metrics=found,
        )

    def _metric(self, facts: MetricFacts, sums: Sums, sliced: Sums) -> MetricResult:
        of_metric = [(key, values) for key, values in sums if key.metric == facts.name]
        strata = self._strata(of_metric)
        return MetricResult(
            metric=facts.name,
            primary=facts.is_primary,
            kind=facts.kind,
            unit=facts.unit,
            optimize=facts.optimize,
            alpha=facts.plan.alpha,
            cap=facts.cap,
            arms=self._values(facts, strata, of_metric),
            comparisons=self._comparisons(facts, strata),
            sample_ratio=_check(sample_ratio_of(strata)),
            parts=[*self._kinds(facts, strata, of_metric), *self._slices(facts, sliced)],
        )

    def _strata(self, sums: Sums) -> Sequence[Stratum]:
        """Returns the strata of sums of one metric."""
        return [each for strata in build_strata(self._experiment, self._weights, sums).values() for each in strata]

    def _kinds(self, facts: MetricFacts, strata: Sequence[Stratum], sums: Sums) -> Iterable[Part]:
        kinds = sorted({each.episode_kind for each in strata if each.episode_kind is not None})
        for kind in kinds if len(kinds) > 1 else ():
            of_kind = [each for each in strata if each.episode_kind == kind]
            values = [each for each in sums if each[0].episode_kind == kind]
            yield self._part("episode_kind", "", kind, facts, of_kind, values)

    def _slices(self, facts: MetricFacts, sliced: Sums) -> Iterable[Part]:
        of_metric = [each for each in sliced if each[0].metric == facts.name]
        units: dict[str, int] = {}
        for key, values in of_metric:
            units[key.value] = units.get(key.value, 0) + values["n"]
        largest = sorted(units, key=lambda value: (-units[value], value))[:_MAX_VALUES_SHOWN]
        for value in in_steps(largest):
            of_value = [each for each in of_metric if each[0].value == value]
            yield self._part("slice", of_value[0][0].slice, value, facts, self._strata(of_value), of_value)

    def _part(self, kind: str, name: str, value: str, facts: MetricFacts, strata: Sequence[Stratum], sums: Sums) -> Part:
        return Part(
            kind="slice" if kind == "slice" else "episode_kind",
            name=name,
            value=value,
            arms=self._values(facts, strata, sums),
            comparisons=self._comparisons(facts, strata),
        )

    def _values(self, facts: MetricFacts, strata: Sequence[Stratum], sums: Sums) -> list[ArmValue]:
        values: list[ArmValue] = []
        for arm in self._experiment.arms:
            estimate = arm_estimate(strata, arm, facts.plan)
            of_arm = [each for key, each in sums if key.arm == arm]
            values.append(
                ArmValue(
                    arm=arm,
                    units=sum(each["n"] for each in of_arm),
                    value=None if estimate is None else estimate.value,
                    interval=None if estimate is None else _range(estimate.interval),
                    total=sum(each["uncapped"] for each in of_arm) / scale_of(facts.name),
                    capped=sum(each["capped"] for each in of_arm),
                )
            )
        return values

    def _comparisons(self, facts: MetricFacts, strata: Sequence[Stratum]) -> list[ArmComparison]:
        return [self._comparison(facts, arm, compare(strata, self._experiment.control, arm, facts.plan)) for arm in in_steps(self._others)]

    def _comparison(self, facts: MetricFacts, arm: str, found: Comparison) -> ArmComparison:
        more_units = self._forecast.more_units(facts, arm, found)
        more_days = self._forecast.days(facts, arm, found, more_units)
        return ArmComparison(
            arm=arm,
            verdict=found.verdict,
            reason=found.reason,
            method=found.method,
            difference=found.difference,
            interval=_range(found.interval),
            p=found.p,
            lift=found.lift,
            lift_interval=_range(found.lift_interval),
            variance_reduction=found.variance_reduction,
            units=found.units,
            units_left_out=found.units_left_out,
            more_units=more_units,
            more_days=more_days,
            conclusion=conclusion_of(facts, self._experiment.control, arm, found, more_days),
        )

    def _assigned(self) -> SampleRatio:
        """Returns the sample ratio of all units when they are assigned, by version and kind of episode."""
        units: dict[tuple[int, str], dict[str, int]] = {}
        for key, values in self._counts:
            of_stratum = units.setdefault((key.version, key.episode_kind), {})
            of_stratum[key.arm] = of_stratum.get(key.arm, 0) + values["units"]
        return sample_ratio(
            [
                (by_arm, probabilities_of(self._experiment, self._weights, version, kind))
                for (version, kind), by_arm in units.items()
                if sum(by_arm.values())
            ]
        )

    def _conclusion(self, found: Sequence[MetricResult], split: SampleRatio) -> str:
        if split.mismatch:
            return mismatch_warning(split.p, "units")
        primary = next((each for each in found if each.primary), None)
        if primary is None or not primary.comparisons:
            return "The primary metric is not among those that were chosen." if primary is None else "There is no arm beside the control."
        if primary.sample_ratio.mismatch:
            return lost_values_warning(primary.metric, primary.sample_ratio.p)
        return " ".join(each.conclusion for each in primary.comparisons)

    def _warnings(self, found: Sequence[MetricResult], split: SampleRatio) -> list[str]:
        warnings = [mismatch_warning(split.p, "units")] if split.mismatch else []
        if not split.mismatch:
            warnings += [lost_values_warning(each.metric, each.sample_ratio.p) for each in found if each.sample_ratio.mismatch]
        units = sum(each.get("units", 0) for each in self._by_arm.values())
        excluded = sum(each.get("excluded", 0) for each in self._by_arm.values())
        if excluded > 0.05 * (units + excluded):
            warnings.append(
                f"{excluded} of {units + excluded} units are excluded, because some of their requests took no part (such as pinned ones):"
                " results are of the others."
            )
        if self._experiment.unit == "episode" and units:
            of_callers = sum(values["units"] for key, values in self._counts if key.episode_kind != "minted")
            if of_callers > 0.05 * units:
                warnings.append(
                    f"{of_callers} of {units} episodes have ids that callers chose. Who chooses ids can choose arms; compare `parts`."
                )
        return warnings


def _range(interval: Interval | None) -> Range | None:
    return None if interval is None else Range(*(end if isfinite(end) else None for end in (interval.low, interval.high)))


def _check(found: SampleRatio) -> SampleRatioCheck:
    return SampleRatioCheck(found.p, found.mismatch)
