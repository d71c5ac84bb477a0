"""The standing of an experiment in one word: harm in any metric first, then a win in the primary one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.results.experiments.results import ArmComparison, ArmUnits, ExperimentResults, MetricResult, Range, SampleRatioCheck
from app.results.experiments.standing import standing_of

FINE, BROKEN = SampleRatioCheck(0.5, False), SampleRatioCheck(1e-9, True)


def comparison(verdict: Any, arm: str = "new", difference: float | None = 0.1, units: int = 50) -> ArmComparison:
    return ArmComparison(
        arm=arm,
        verdict=verdict,
        reason=None,
        method=None,
        difference=difference,
        interval=Range(0.0, 0.2),
        p=0.5,
        lift=None,
        lift_interval=None,
        variance_reduction=0.0,
        units=units,
        units_left_out=0,
        more_units=None,
        more_days=None,
        conclusion=f"{arm}: {verdict}",
    )


def metric(name: str, *comparisons: ArmComparison, optimize: Any = "max", check: SampleRatioCheck = FINE) -> MetricResult:
    return MetricResult(
        metric=name,
        primary=name == "solved",
        kind="boolean",
        unit="share of units",
        optimize=optimize,
        alpha=0.05,
        cap=None,
        arms=[],
        comparisons=comparisons,
        sample_ratio=check,
        parts=[],
    )


def results(*metrics: MetricResult, check: SampleRatioCheck = FINE, status: Any = "running") -> ExperimentResults:
    arm = ArmUnits(
        arm="new",
        share=0.5,
        units=7,
        open=0,
        measured=7,
        complete=7,
        excluded=0,
        inferences=7,
        inferences_per_episode=1.0,
        served_by_other_share=0.0,
    )
    return ExperimentResults(
        id="x",
        name="x",
        status=status,
        unit="episode",
        control="old",
        alpha=0.05,
        planned_units=100,
        started_at=None,
        ended_at=None,
        read_at=datetime.now(UTC),
        window_minutes=1,
        feedback_hours=1,
        slices=[],
        units_per_day=0.0,
        conclusion="of the primary metric",
        warnings=["warned"],
        sample_ratio=check,
        arms=[arm],
        metrics=metrics,
    )


TWO_BETTER = (comparison("better", "third", 0.3), comparison("better", "fourth", 0.2))
BETTER, WORSE, EQUAL, OPEN = (comparison(each) for each in ("better", "worse", "equal", "no difference yet"))


@pytest.mark.parametrize(
    ("found", "verdict", "metric_name", "arm"),
    [
        (results(metric("solved", BETTER), metric("error", OPEN, optimize="min")), "winning", "solved", "new"),
        (results(metric("solved", BETTER), metric("error", WORSE, optimize="min")), "harmful", "error", "new"),
        (results(metric("solved", BETTER, comparison("worse", "third"))), "harmful", "solved", "third"),
        (
            results(metric("solved", OPEN, *TWO_BETTER)),
            "winning",
            "solved",
            "third",
        ),
        (results(metric("solved", WORSE), check=BROKEN), "broken", "solved", "new"),
        (results(metric("solved", WORSE, check=BROKEN)), "broken", "solved", "new"),
        (results(metric("solved", OPEN), metric("error", WORSE, check=BROKEN)), "keep_running", "solved", "new"),
        (results(metric("solved", OPEN), metric("length", WORSE, optimize=None)), "keep_running", "solved", "new"),
        (results(metric("solved", EQUAL)), "equivalent", "solved", "new"),
        (results(metric("solved", EQUAL, OPEN)), "keep_running", "solved", "new"),
        (results(metric("solved", comparison("too early", units=0))), "keep_running", "solved", "new"),
        (results(metric("solved", OPEN), status="ended"), "cannot_tell", "solved", "new"),
        (results(metric("solved", comparison("needs a cap"))), "cannot_tell", "solved", "new"),
        (results(metric("solved", comparison("no difference yet", units=100))), "cannot_tell", "solved", "new"),
        (results(metric("solved", BETTER, optimize=None)), "cannot_tell", "solved", "new"),
        (results(metric("solved")), "cannot_tell", "solved", None),
        (results(), "cannot_tell", None, None),
    ],
)
def test_verdict_names_what_decided(found: ExperimentResults, verdict: str, metric_name: str | None, arm: str | None):
    standing = standing_of(found)
    assert (standing.verdict, standing.metric, standing.arm) == (verdict, metric_name, arm)
    assert standing.units == 7 * bool(found.arms) and standing.warnings == ["warned"]
    assert standing.conclusion == (f"{arm}: worse" if verdict == "harmful" else "of the primary metric")
