"""Guardrails: which arms are worse than the control by more than a margin, with no more false stops than promised.

All stops of an experiment share one alpha, one-sided: each of its guardrails, for each of its arms, has an equal part. Nothing is stopped
for being worse by less than the margin.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from app.domain.experiments import BOOLEAN_OUTCOMES, BUILT_IN_OUTCOMES
from app.results.guard.facts import ExperimentFacts, Results
from app.results.statistics.boolean_difference import Evidence
from app.results.statistics.harm import Harm, harm, harm_by_means
from app.results.statistics.pairs import pairs, planned_overlap
from app.results.statistics.plan import Plan
from app.results.statistics.strata import overlap_weighted_unadjusted
from app.results.statistics.sums import Stratum, UnitSums

# An arm fails outright if at least so much more of its units have an error than of the control's: it serves nobody any longer.
OUTRIGHT_MARGIN = 0.5
OUTRIGHT_METRIC = "error"


class GuardrailTest(Struct, frozen=True, kw_only=True):
    """The test of one guardrail for one arm.

    `e_value` reaches `needed` = 1/alpha if the harm is more than `margin`. The harm is more than `above` and
    less than `below` at all times, each with the probability 1 - alpha; they are None if it is too early, for
    `reason`.
    """

    metric: str
    arm: str
    margin: float
    alpha: float
    e_value: float
    needed: float
    # How much worse the arm is than the control, in the metric's own unit; None if no unit of both is
    # complete.
    harm: float | None
    above: float | None
    below: float | None
    reason: str | None
    units: tuple[int, int]  # of the arm and of the control
    outright_e_value: float | None = None  # the same as `e_value` with OUTRIGHT_MARGIN; None if not looked at

    @property
    def exceeds_margin(self) -> bool:
        # That an arm has few units, which the weights do not explain, is evidence as well: that alone stops nothing.
        return self.e_value >= self.needed and self.harm is not None and self.harm > self.margin

    @property
    def fails_outright(self) -> bool:
        return self.exceeds_margin and self.outright_e_value is not None and self.outright_e_value >= self.needed

    @property
    def clears(self) -> bool:
        """True if the harm is known to be less than the margin."""
        return self.below is not None and self.below < self.margin


class ArmBaseline(Struct, frozen=True):
    """The part of an arm's results that is no evidence any more, as a person put the arm back.

    It is versions before `since`, and these sums of the rest.
    """

    since: int
    sums: Mapping[str, Sequence[Stratum]]


class Stop(Struct, frozen=True):
    """An arm that is to be stopped."""

    arm: str
    now: bool  # the control serves its running units, too
    tests: Sequence[GuardrailTest]  # of this arm, those that exceed their margin first


def stop_alpha(facts: ExperimentFacts) -> float:
    """Returns the part of alpha that each guardrail has for each arm."""
    return facts.analysis.alpha / max(1, len(facts.analysis.guardrails) * len(facts.others))


def find_stops(facts: ExperimentFacts, results: Results, baselines: Mapping[str, ArmBaseline]) -> list[Stop]:
    """Returns the arms that are to be stopped, never the control.

    Arms that get no new units already, but still have their running ones, are stopped only if they fail
    outright.
    """
    stops: list[Stop] = []
    for arm in facts.others:
        if arm in facts.stopped:
            continue
        evidence = results_since(results, baselines[arm]) if arm in baselines else results
        if not _may_exceed(facts, evidence, arm):
            continue
        tests = test_arm(facts, evidence, arm, stop_alpha(facts))
        # A unit without a time of birth cannot be told from new ones, so the arm is stopped for all of them.
        outright = any(test.fails_outright for test in tests)
        if outright or (facts.enrols(arm) and any(test.exceeds_margin for test in tests)):
            stops.append(Stop(arm, outright or facts.unit != "episode", sorted(tests, key=lambda test: not test.exceeds_margin)))
    return stops


def test_arm(facts: ExperimentFacts, results: Results, arm: str, alpha: float) -> list[GuardrailTest]:
    """Tests all guardrails for one arm."""
    return [
        _test(results.get(metric, ()), facts.control, arm, metric, facts.plan(metric, alpha), margin)
        for metric, margin in sorted(facts.analysis.guardrails.items())
    ]


def _may_exceed(facts: ExperimentFacts, results: Results, arm: str) -> bool:
    """Returns whether any e-value of counts is large enough, or a metric has no counts.

    This is looked at first because tests compute bounds, too, which takes much longer.
    """
    alpha = stop_alpha(facts)
    for metric, margin in facts.analysis.guardrails.items():
        found = pairs(results.get(metric, ()), facts.control, arm)
        if metric not in BOOLEAN_OUTCOMES or not all(pair.control.is_boolean and pair.arm.is_boolean for pair in found):
            return True
        plan = facts.plan(metric, alpha)
        if found:
            evidence = Evidence(found, planned_overlap(found, plan.planned_units), alpha, plan.expected_rate)
            if evidence.log_e_value_above(margin) >= -math.log(alpha):
                return True
    return False


def results_since(results: Results, baseline: ArmBaseline) -> dict[str, list[Stratum]]:
    return {metric: _strata_since(strata, baseline.since, baseline.sums.get(metric, ())) for metric, strata in results.items()}


def _strata_since(strata: Sequence[Stratum], since: int, earlier: Sequence[Stratum]) -> list[Stratum]:
    known = {(stratum.version, stratum.episode_kind): stratum for stratum in earlier}
    left: list[Stratum] = []
    for stratum in strata:
        if stratum.version < since:
            continue
        before = known.get((stratum.version, stratum.episode_kind))
        if before is not None:
            arms = {arm: _less(sums, before.arms.get(arm, UnitSums())) for arm, sums in stratum.arms.items()}
            stratum = Stratum(stratum.version, stratum.episode_kind, stratum.probabilities, arms)
        left.append(stratum)
    return left


def _less(sums: UnitSums, earlier: UnitSums) -> UnitSums:
    """Returns the units that have come since, or none of them if more were erased than have come."""
    names = UnitSums.__struct_fields__
    left = UnitSums(*(getattr(sums, name) - getattr(earlier, name) for name in names))
    return left if left.n > 0 and min(left.zeros, left.ones) >= 0 else UnitSums()


def _test(strata: Sequence[Stratum], control: str, arm: str, metric: str, plan: Plan, margin: float) -> GuardrailTest:
    found = pairs(strata, control, arm)
    both = [pair for pair in found if pair.overlap]
    difference = overlap_weighted_unadjusted(both).difference if both else None
    worse_by = None if difference is None else difference if plan.optimize == "min" else -difference
    tested = _harm(strata, control, arm, metric, plan, margin)
    outright = None
    if metric == OUTRIGHT_METRIC:
        outright = _finite(_harm(strata, control, arm, metric, plan, max(margin, OUTRIGHT_MARGIN)).log_e_value)
    return GuardrailTest(
        metric=metric,
        arm=arm,
        margin=margin,
        alpha=plan.alpha,
        e_value=_finite(tested.log_e_value),
        needed=1 / plan.alpha,
        harm=worse_by,
        above=None if tested.worse_by is None else tested.worse_by.low,
        below=None if tested.worse_by is None else tested.worse_by.high,
        reason=tested.reason,
        units=(sum(pair.arm.n for pair in found), sum(pair.control.n for pair in found)),
        outright_e_value=outright,
    )


def _harm(strata: Sequence[Stratum], control: str, arm: str, metric: str, plan: Plan, margin: float) -> Harm:
    """Tests the harm in one metric, by exact counts or by means.

    Exact counts take it that each unit has a value, as of errors. Perhaps more feedback is missing in one arm
    than in the other, so means compare what was observed.
    """
    found = pairs(strata, control, arm)
    if metric in BUILT_IN_OUTCOMES or not found:
        return harm(strata, control, arm, plan, margin)
    return harm_by_means(found, planned_overlap(found, plan.planned_units), plan, margin)


def _finite(log_e: float) -> float:
    """Returns the e-value as JSON can hold it."""
    return math.exp(min(log_e, 700.0))
