"""The standing of an experiment in one word: read for harm in every metric, and for a win in the primary one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from app.results.experiments.results import ArmComparison, ExperimentResults, MetricResult, Range

StandingVerdict = Literal["harmful", "winning", "equivalent", "keep_running", "cannot_tell", "broken"]


class ExperimentStanding(Struct, frozen=True, kw_only=True):
    """The standing of an experiment. Numbers are of the comparison that decided, or of the first one in the primary metric."""

    verdict: Annotated[
        StandingVerdict,
        Meta(
            description="broken: arms lost units, so nothing may be concluded. harmful: an arm is worse in some metric. winning: an arm is"
            " better in the primary one, and none is worse in any. equivalent: all are equal, as far as it matters. cannot_tell: more of"
            " the same units will not decide. keep_running: not decided yet."
        ),
    ]
    arm: Annotated[str | None, Meta(description="The arm that the verdict is about; null: there is none beside the control.")]
    metric: Annotated[str | None, Meta(description="The metric that decided.")]
    difference: Annotated[float | None, Meta(description="Arm less control, in the metric's own unit.")]
    interval: Annotated[Range | None, Meta(description="Of the difference; holds at all looks together.")]
    units: Annotated[int, Meta(description="Units of all arms that take part.")]
    planned_units: Annotated[int, Meta(description="How many the start planned.")]
    conclusion: Annotated[str, Meta(description="The verdict as a sentence.")]
    warnings: Annotated[Sequence[str], Meta(description="Those of the results.")]
    read_at: Annotated[datetime, Meta(description="When the results were read.")]


def standing_of(results: ExperimentResults) -> ExperimentStanding:
    primary = next((each for each in results.metrics if each.primary), None)
    verdict, metric, comparison = _decide(results, primary)
    return ExperimentStanding(
        verdict=verdict,
        arm=None if comparison is None else comparison.arm,
        metric=None if metric is None else metric.metric,
        difference=None if comparison is None else comparison.difference,
        interval=None if comparison is None else comparison.interval,
        units=sum(each.units for each in results.arms),
        planned_units=results.planned_units,
        conclusion=comparison.conclusion if verdict == "harmful" and comparison is not None else results.conclusion,
        warnings=results.warnings,
        read_at=results.read_at,
    )


def _decide(results: ExperimentResults, primary: MetricResult | None) -> tuple[StandingVerdict, MetricResult | None, ArmComparison | None]:
    """The verdict, with the metric and the comparison that it comes from."""
    if primary is None or not primary.comparisons:
        return "cannot_tell", primary, None
    first = primary.comparisons[0]
    if results.sample_ratio.mismatch or primary.sample_ratio.mismatch:
        return "broken", primary, first
    for metric in results.metrics:
        for comparison in metric.comparisons:
            # Where more is neither better nor worse, and where an arm loses values, no harm is known.
            if comparison.verdict == "worse" and metric.optimize is not None and not metric.sample_ratio.mismatch:
                return "harmful", metric, comparison
    best = _best(primary)
    if best is not None:
        return "winning", primary, best
    if all(each.verdict == "equal" for each in primary.comparisons):
        return "equivalent", primary, first
    return "cannot_tell" if _is_undecidable(results, primary) else "keep_running", primary, first


def _best(primary: MetricResult) -> ArmComparison | None:
    """The arm that is better by most; None: none is, or the metric does not say which is better."""
    better = [each for each in primary.comparisons if each.verdict == "better" and each.difference is not None]
    if primary.optimize is None or not better:
        return None
    return max(better, key=lambda each: abs(each.difference or 0))


def _is_undecidable(results: ExperimentResults, primary: MetricResult) -> bool:
    if results.status == "ended" or primary.optimize is None:
        return True
    if any(each.verdict == "needs a cap" for each in primary.comparisons):
        return True
    seen = min(each.units + each.units_left_out for each in primary.comparisons)
    return 0 < results.planned_units <= seen
