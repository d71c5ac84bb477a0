"""Guardrails: is an arm worse than the control by more than a margin? One-sided, and as safe to look at all the time as a comparison.

Several guardrails that each may stop an arm share alpha (multiplicity.py): G of them at 0.05 each stop a harmless arm with up to G times
that. For what a promotion must be clear of, no correction is needed: all of them must hold.
"""

from collections.abc import Sequence
from math import log, sqrt

from msgspec import Struct

from app.results.statistics import confidence_sequence
from app.results.statistics.boolean_difference import Evidence
from app.results.statistics.confidence_sequence import Interval, always_valid_p
from app.results.statistics.pairs import Pair, pairs, planned_overlap
from app.results.statistics.plan import Plan
from app.results.statistics.ready import ready_contrast
from app.results.statistics.sums import Stratum
from app.results.statistics.tuning import kappa


class Harm(Struct, frozen=True):
    """The harm that an arm does in one metric."""

    margin: float
    exceeds: bool = False  # the arm is worse by more than the margin, proven at alpha
    clear: bool = False  # it is not, proven at alpha; if neither is true, that is not known yet
    # bounds of how much worse (negative: better), each of them at alpha; None if it is too early, for
    # `reason`
    worse_by: Interval | None = None
    log_e_value: float = 0.0
    p: float = 1.0
    reason: str | None = None


def harm(strata: Sequence[Stratum], control: str, arm: str, plan: Plan, margin: float) -> Harm:
    """Tests whether an arm is worse than the control by more than `margin`, in the metric's own unit, 0 or
    more.

    `plan.alpha` is one-sided here.
    """
    found = pairs(strata, control, arm)
    if not found:
        return Harm(margin, reason="no unit is complete yet")
    planned = planned_overlap(found, plan.planned_units)
    if plan.by_counts(found):
        return harm_by_counts(found, planned, plan, margin)
    return harm_by_means(found, planned, plan, margin)


def harm_by_counts(found: Sequence[Pair], planned: float, plan: Plan, margin: float) -> Harm:
    evidence = Evidence(found, planned, plan.alpha, plan.expected_rate)
    bounds = Interval(evidence.lower_bound(plan.alpha), evidence.upper_bound(plan.alpha))
    if plan.optimize == "min":
        return judged(margin, bounds, evidence.log_e_value_above(margin), plan)
    return judged(margin, Interval(-bounds.high, -bounds.low), evidence.log_e_value_below(-margin), plan)


def harm_by_means(found: Sequence[Pair], planned: float, plan: Plan, margin: float) -> Harm:
    ready = ready_contrast(found, plan)
    contrast = ready.contrast
    if contrast is None:
        return Harm(margin, reason=ready.reason)
    worse_by = contrast.difference if plan.optimize == "min" else -contrast.difference
    information, error = kappa(contrast.overlap, planned, plan.alpha), sqrt(contrast.variance)
    half_width = confidence_sequence.one_sided_critical_z(information, plan.alpha) * error
    log_e_value = confidence_sequence.one_sided_log_e_value((worse_by - margin) / error, information)
    return judged(margin, Interval(worse_by - half_width, worse_by + half_width), log_e_value, plan)


def judged(margin: float, worse_by: Interval, log_e_value: float, plan: Plan) -> Harm:
    return Harm(
        margin=margin,
        exceeds=log_e_value >= -log(plan.alpha),
        clear=worse_by.high < margin,
        worse_by=worse_by,
        log_e_value=log_e_value,
        p=always_valid_p(log_e_value),
    )
