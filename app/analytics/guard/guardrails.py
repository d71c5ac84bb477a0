"""Guardrails: whether an arm is worse than the control by more than its margin, at any time and with no more false stops than promised.

All stops of an experiment share one alpha, one-sided: each of its guardrails, for each of its arms, has an equal part. Nothing is stopped
for being worse by less than the margin.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from app.analytics.guard import pair_difference
from app.analytics.guard.facts import ExperimentFacts, Results
from app.analytics.guard.pair_difference import total_units
from app.analytics.statistics import count_difference
from app.analytics.statistics.sums import Stratum, UnitSums

# An arm fails outright if at least so much more of its units have an error than of the control's: it serves nobody any longer.
OUTRIGHT_MARGIN = 0.5
OUTRIGHT_METRIC = "error"


class GuardrailTest(Struct, frozen=True, kw_only=True):
    """`harm`: how much worse the arm is than the control, in the metric's own unit. `above` and `below`: it is within these at all times,
    each with the probability 1 - alpha. None: too early, or not computed. `e_value`: reaches `needed` = 1/alpha if the harm is more than
    `margin`. `method`: counts of units that have it, exact from the first one on; or the sequence, which needs its burn-in.
    `outright_e_value`: the same with OUTRIGHT_MARGIN; None: not looked at. `units`: those that it is computed from.
    """

    metric: str
    arm: str
    margin: float
    alpha: float
    method: Literal["counts", "sequence"]
    e_value: float
    needed: float
    harm: float | None
    above: float | None
    below: float | None
    units: tuple[int, int]
    outright_e_value: float | None = None

    @property
    def exceeds_margin(self) -> bool:
        # Few units in an arm are evidence of a wrong split as well: that alone stops nothing.
        return self.e_value >= self.needed and self.harm is not None and self.harm > self.margin

    @property
    def fails_outright(self) -> bool:
        return self.exceeds_margin and self.outright_e_value is not None and self.outright_e_value >= self.needed

    @property
    def clears(self) -> bool:
        """The harm is known to be less than the margin."""
        return self.below is not None and self.below < self.margin


class ArmBaseline(Struct, frozen=True):
    """What of an arm's results is no evidence any more, as a person put it back: versions before `since`, and these sums of the rest."""

    since: int
    sums: Mapping[str, Sequence[Stratum]]


class Stop(Struct, frozen=True):
    """`now`: the control serves its running units, too. `tests`: of this arm, those that exceed their margin first."""

    arm: str
    now: bool
    tests: Sequence[GuardrailTest]


def stop_alpha(facts: ExperimentFacts) -> float:
    """The part of each guardrail and arm."""
    return facts.analysis.alpha / max(1, len(facts.analysis.guardrails) * len(facts.others))


def find_stops(facts: ExperimentFacts, results: Results, baselines: Mapping[str, ArmBaseline]) -> list[Stop]:
    """The arms that are to be stopped, never the control. Arms that are stopped already are looked at for failing outright."""
    stops: list[Stop] = []
    for arm in facts.others:
        if arm in facts.stopped:
            continue
        evidence = results_since(results, baselines[arm]) if arm in baselines else results
        tests = test_arm(facts, evidence, arm, stop_alpha(facts), bounds=False)
        # A unit without a time of birth cannot be told from new ones, so the arm is stopped for all of them.
        outright = any(test.fails_outright for test in tests)
        if outright or (facts.enrols(arm) and any(test.exceeds_margin for test in tests)):
            tests = test_arm(facts, evidence, arm, stop_alpha(facts))
            stops.append(Stop(arm, outright or facts.unit != "episode", sorted(tests, key=lambda test: not test.exceeds_margin)))
    return stops


def test_arm(facts: ExperimentFacts, results: Results, arm: str, alpha: float, *, bounds: bool = True) -> list[GuardrailTest]:
    """Without `bounds` of counts it is many times faster."""
    tests: list[GuardrailTest] = []
    for metric, margin in sorted(facts.analysis.guardrails.items()):
        strata = results.get(metric, ())
        if facts.is_count(metric):
            tests.append(_test_counts(metric, strata, arm, facts.control, margin, alpha, bounds))
        else:
            tests.append(_test_sequence(facts, metric, strata, arm, margin, alpha))
    return tests


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
    """The units that have come since. None of them if more were erased than have come."""
    names = UnitSums.__struct_fields__
    left = UnitSums(*(getattr(sums, name) - getattr(earlier, name) for name in names))
    return left if left.n > 0 and min(left.zeros, left.ones) >= 0 else UnitSums()


def _test_sequence(facts: ExperimentFacts, metric: str, strata: Sequence[Stratum], arm: str, margin: float, alpha: float) -> GuardrailTest:
    # The mean of what is worse less the mean of what is better.
    worse, better = (arm, facts.control) if facts.directions[metric] == "min" else (facts.control, arm)
    compared = pair_difference.compare(strata, worse, better, capped=facts.is_capped(metric))
    if compared is None:
        units = total_units(strata, arm), total_units(strata, facts.control)
        return _too_early(metric, arm, margin, alpha, units)
    planned = facts.analysis.planned_units
    above, below = pair_difference.interval(compared, planned, min(1.0, 2 * alpha))
    log_e = pair_difference.log_e_above(compared, margin, planned, alpha)
    units = compared.units if worse == arm else (compared.units[1], compared.units[0])
    return GuardrailTest(
        metric=metric,
        arm=arm,
        margin=margin,
        alpha=alpha,
        method="sequence",
        e_value=_finite(log_e),
        needed=1 / alpha,
        harm=compared.estimate,
        above=above,
        below=below,
        units=units,
    )


def _test_counts(
    metric: str, strata: Sequence[Stratum], arm: str, control: str, margin: float, alpha: float, bounds: bool
) -> GuardrailTest:
    cells = count_difference.cells_of(strata, arm, control)
    ones = sum(cell.arm_ones for cell in cells), sum(cell.control_ones for cell in cells)
    units = ones[0] + sum(cell.arm_zeros for cell in cells), ones[1] + sum(cell.control_zeros for cell in cells)
    outright = count_difference.log_e_above(cells, max(margin, OUTRIGHT_MARGIN)) if metric == OUTRIGHT_METRIC else None
    return GuardrailTest(
        metric=metric,
        arm=arm,
        margin=margin,
        alpha=alpha,
        method="counts",
        e_value=_finite(count_difference.log_e_above(cells, margin)),
        needed=1 / alpha,
        harm=_weighted_difference(cells),
        above=count_difference.lower_bound(cells, alpha) if cells and bounds else None,
        below=count_difference.upper_bound(cells, alpha) if cells and bounds else None,
        units=units,
        outright_e_value=None if outright is None else _finite(outright),
    )


def _weighted_difference(cells: Sequence[count_difference.Cell]) -> float | None:
    total = weighted = 0.0
    for cell in cells:
        arm, control = cell.arm_ones + cell.arm_zeros, cell.control_ones + cell.control_zeros
        if arm and control:
            weight = arm * control / (arm + control)
            total += weight
            weighted += weight * (cell.arm_ones / arm - cell.control_ones / control)
    return weighted / total if total else None


def _too_early(metric: str, arm: str, margin: float, alpha: float, units: tuple[int, int]) -> GuardrailTest:
    return GuardrailTest(
        metric=metric,
        arm=arm,
        margin=margin,
        alpha=alpha,
        method="sequence",
        e_value=1.0,
        needed=1 / alpha,
        harm=None,
        above=None,
        below=None,
        units=units,
    )


def _finite(log_e: float) -> float:
    """The e-value as JSON can hold it."""
    return math.exp(min(log_e, 700.0))
