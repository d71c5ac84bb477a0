"""The comparison of an arm with the control in one metric: what results, promotion and people read. Start here.

It may be looked at after every unit: with probability 1 - alpha the interval holds at all looks together. Booleans that every unit has
go by exact counts (boolean_difference.py), everything else by the asymptotic sequence over strata (strata.py), after a burn-in
(burn_in.py).
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Literal

from msgspec import Struct

from app.results.statistics import boolean_counts, confidence_sequence
from app.results.statistics.boolean_difference import Evidence
from app.results.statistics.burn_in import NO_CAP, UNITS
from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.estimate import Estimate, weighted_estimate
from app.results.statistics.pairs import Pair, pairs, planned_overlap
from app.results.statistics.plan import Plan
from app.results.statistics.ready import ready_contrast
from app.results.statistics.strata import Contrast, overlap_weighted_unadjusted
from app.results.statistics.sums import Stratum, UnitSums
from app.results.statistics.tuning import kappa

Verdict = Literal["too early", "needs a cap", "no difference yet", "better", "worse", "equal"]
Method = Literal["exact counts", "confidence sequence"]

# A lift is a ratio: its denominator must be known to a tenth at the least.
LEAST_CONTROL_Z = 10


class Comparison(Struct, frozen=True):
    """The comparison of an arm with the control in one metric.

    `control` and `arm` weigh strata like the difference does; they are without an interval where means are
    compared (estimate.py has an arm's own). `lift` is never decided on.
    """

    verdict: Verdict
    reason: str | None = None  # what is missing, where it is too early
    method: Method | None = None
    control: Estimate | None = None
    arm: Estimate | None = None
    difference: float | None = None  # arm less control, in the metric's own unit, as `interval` is
    interval: Interval | None = None
    log_e_value: float = 0.0  # evidence against no difference, of this look
    p: float = 1.0  # the inverse of the e-value, always valid
    # the relative difference; None while the control's value is not known well enough
    lift: float | None = None
    lift_interval: Interval | None = None
    variance_reduction: float = 0.0  # the share of the variance that the covariate explained
    unit_variance: float | None = None  # what is left of the variance, for power.py
    units: int = 0  # of both arms, in the difference
    units_left_out: int = 0  # in versions that lack units


def compare(strata: Sequence[Stratum], control: str, arm: str, plan: Plan) -> Comparison:
    found = pairs(strata, control, arm)
    if not found or not any(pair.control.n + pair.arm.n for pair in found):
        return Comparison("too early", "no unit is complete yet")
    planned = planned_overlap(found, plan.planned_units)
    if plan.by_counts(found):
        return compare_counts(found, planned, plan)
    return compare_means(found, planned, plan)


def compare_counts(found: Sequence[Pair], planned: float, plan: Plan) -> Comparison:
    """Compares exactly, at any number of units.

    With few of them the interval is wide, and the verdict "no difference yet" becomes "too early".
    """
    evidence = Evidence(found, planned, plan.alpha, plan.expected_rate)
    interval, log_e_value = evidence.interval(), evidence.log_e_value()
    both = [pair for pair in found if pair.overlap]
    contrast = overlap_weighted_unadjusted(both) if both else None
    if contrast:
        # Bets rely on the split. Where units are lost it is another one than the weights', which alone must make no difference.
        interval = Interval(min(interval.low, contrast.difference), max(interval.high, contrast.difference))
    verdict, reason = verdict_on(interval, plan), None
    fewest = min(sum(pair.control.n for pair in found), sum(pair.arm.n for pair in found))
    if verdict == "no difference yet" and fewest < UNITS:
        verdict, reason = "too early", f"an arm has {fewest} complete units, and {UNITS} are needed"
    lift = lift_of(contrast) if contrast else None
    ratio = boolean_counts.risk_ratio(boolean_counts.successes(found), plan.alpha) if lift is not None else None
    return Comparison(
        verdict=verdict,
        reason=reason,
        method="exact counts",
        control=estimate_of([pair.control for pair in both], both, plan),
        arm=estimate_of([pair.arm for pair in both], both, plan),
        difference=contrast.difference if contrast else None,
        interval=interval,
        log_e_value=log_e_value,
        p=confidence_sequence.always_valid_p(log_e_value),
        lift=lift,
        lift_interval=Interval(ratio.low - 1, ratio.high - 1) if ratio else None,
        unit_variance=contrast.variance * contrast.overlap if contrast else None,
        units=contrast.units if contrast else 0,
        units_left_out=sum(pair.control.n + pair.arm.n for pair in found if not pair.overlap),
    )


def compare_means(found: Sequence[Pair], planned: float, plan: Plan) -> Comparison:
    ready = ready_contrast(found, plan)
    contrast = ready.contrast
    if contrast is None:
        return unready(found, ready.reason, plan)
    information = kappa(contrast.overlap, planned, plan.alpha)
    error = sqrt(contrast.variance)
    interval = confidence_sequence.interval(contrast.difference, error, information, plan.alpha)
    log_e_value = confidence_sequence.log_e_value(contrast.difference / error, information)
    lift = lift_of(contrast)
    return Comparison(
        verdict=verdict_on(interval, plan),
        method="confidence sequence",
        control=Estimate(contrast.control, None, contrast.control_units),
        arm=Estimate(contrast.arm, None, contrast.arm_units),
        difference=contrast.difference,
        interval=interval,
        log_e_value=log_e_value,
        p=confidence_sequence.always_valid_p(log_e_value),
        lift=lift,
        lift_interval=lift_interval(contrast, information, plan.alpha) if lift is not None else None,
        variance_reduction=1 - contrast.variance / contrast.unadjusted_variance,
        unit_variance=contrast.variance * contrast.overlap,
        units=contrast.units,
        units_left_out=sum(pair.control.n + pair.arm.n for pair in found) - contrast.units,
    )


def unready(found: Sequence[Pair], reason: str | None, plan: Plan) -> Comparison:
    """Returns values without intervals."""
    both = [pair for pair in found if pair.overlap]
    return Comparison(
        "needs a cap" if reason == NO_CAP else "too early",
        reason,
        control=without_interval(estimate_of([pair.control for pair in both], both, plan)),
        arm=without_interval(estimate_of([pair.arm for pair in both], both, plan)),
        units_left_out=sum(pair.control.n + pair.arm.n for pair in found),
    )


def estimate_of(parts: Sequence[UnitSums], found: Sequence[Pair], plan: Plan) -> Estimate | None:
    return weighted_estimate(parts, [pair.overlap for pair in found], plan)


def without_interval(estimate: Estimate | None) -> Estimate | None:
    return Estimate(estimate.value, None, estimate.units) if estimate else None


def verdict_on(interval: Interval, plan: Plan) -> Verdict:
    if not interval.contains(0.0):
        return "better" if (interval.low > 0) == (plan.optimize == "max") else "worse"
    if plan.equal_within is not None and -plan.equal_within <= interval.low and interval.high <= plan.equal_within:
        return "equal"
    return "no difference yet"


def lift_of(contrast: Contrast) -> float | None:
    if contrast.control <= 0 or contrast.control < LEAST_CONTROL_Z * sqrt(contrast.control_variance):
        return None
    return contrast.difference / contrast.control


def lift_interval(contrast: Contrast, information: float, alpha: float) -> Interval | None:
    """Returns the interval of the lift, from the logarithm of the ratio, or None if the arm's value is not
    above 0.

    Deng, Knoblich, Lu 2018, https://arxiv.org/abs/1803.06336.
    """
    value = contrast.control + contrast.difference
    if value <= 0:
        return None
    unadjusted = contrast.control_variance / contrast.control**2 + contrast.arm_variance / value**2
    error = sqrt(unadjusted * contrast.variance / contrast.unadjusted_variance)
    logarithms = confidence_sequence.interval(log(value / contrast.control), error, information, alpha)
    return Interval(exp(logarithms.low) - 1, exp(logarithms.high) - 1)
