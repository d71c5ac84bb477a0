"""Pairs: the same request answered by two variants, as in shadows and replays. What varies between requests cancels.

One sample of differences d = b - a: Miller 2024, https://arxiv.org/abs/2411.00640. Requests of one episode or user are one unit, whose d
is their mean. Pairs that differ in a yes or no: of those that differ each is a fair coin if both are as good.
"""

from math import sqrt

from msgspec import Struct

from app.results.statistics import confidence_sequence, sample_ratio
from app.results.statistics.burn_in import OF_EACH_OUTCOME, UNITS, UNITS_OF_HEAVY_TAILS
from app.results.statistics.compare import Verdict, verdict_on
from app.results.statistics.confidence_sequence import Interval, always_valid_p
from app.results.statistics.moments import mean, variance
from app.results.statistics.plan import Plan
from app.results.statistics.rate import rate_interval
from app.results.statistics.sums import UnitSums
from app.results.statistics.tuning import kappa

# As if that many pairs had been expected to differ: ln E of a mismatch of coins.
COINS = 20.0


class PairedComparison(Struct, frozen=True):
    """The comparison of b with a."""

    verdict: Verdict
    difference: float | None = None  # b less a, in the metric's own unit
    interval: Interval | None = None
    log_e_value: float = 0.0
    p: float = 1.0
    units: int = 0
    reason: str | None = None  # what is missing, where it is too early


def compare_pairs(differences: UnitSums, plan: Plan) -> PairedComparison:
    """Compares by sums of d over units: n, y, yy and zeros. `plan.planned_units` counts pairs."""
    units = differences.n
    needed = UNITS_OF_HEAVY_TAILS if plan.kind == "heavy_tailed" else UNITS
    if units < needed:
        difference = mean(differences) if units else None
        return PairedComparison("too early", difference, units=units, reason=f"{units} units are complete, and {needed} are needed")
    if units == differences.zeros:
        reason = f"none of {units} units differs; those that would may be too rare to have come"
        return PairedComparison("too early", mean(differences), units=units, reason=reason)
    if units - differences.zeros < OF_EACH_OUTCOME:
        return PairedComparison("too early", mean(differences), units=units, reason="almost all pairs are the same in both")
    of_unit = variance(differences)
    if of_unit <= 0:
        return PairedComparison("too early", mean(differences), units=units, reason="the difference is the same in all pairs")
    error, information = sqrt(of_unit / units), kappa(units, plan.planned_units, plan.alpha)
    interval = confidence_sequence.interval(mean(differences), error, information, plan.alpha)
    log_e_value = confidence_sequence.log_e_value(mean(differences) / error, information)
    return PairedComparison(verdict_on(interval, plan), mean(differences), interval, log_e_value, always_valid_p(log_e_value), units)


def compare_outcomes(only_a: int, only_b: int, units: int, plan: Plan) -> PairedComparison:
    """Compares a yes or no exactly: in `only_a` pairs a alone had it, in `only_b` b alone, of `units` pairs.

    A unit is one pair. The difference is the rate of pairs that differ, times how much of them is b's rather
    than a's. Its interval follows from one of each, with half of alpha: so where no pair differs it says how
    often they still may, and 0 is left out by the coins alone.
    """
    differ = only_a + only_b
    if not units:
        return PairedComparison("too early", reason="no pair is complete yet")
    log_e_value = sample_ratio.log_e_value({"a": only_a, "b": only_b}, {"a": 0.5, "b": 0.5}, COINS)
    rate = rate_interval(differ, units - differ, plan.alpha / 2)
    part = rate_interval(only_b, only_a, plan.alpha / 2, prior=COINS / 2)
    low, high = 2 * part.low - 1, 2 * part.high - 1
    interval = Interval(min(low * rate.low, low * rate.high), max(high * rate.low, high * rate.high))
    difference, p = (only_b - only_a) / units, always_valid_p(log_e_value)
    return PairedComparison(verdict_on(interval, plan), difference, interval, log_e_value, p, units)


def judge_score(of_a_first: float, of_b_first: float) -> float:
    """b's score from a judge who read both orders: `of_a_first` is b's score when a was read first, each between 0 and 1.

    Shi et al. 2024, https://arxiv.org/abs/2406.07791: judges prefer a place. Where the orders disagree it is a tie.
    """
    if (of_a_first - 0.5) * (of_b_first - 0.5) < 0:
        return 0.5
    return (of_a_first + of_b_first) / 2


def unshrunk_difference(difference: float, sensitivity: float, specificity: float) -> float:
    """Returns the true difference that a judge that errs has shrunk to this one.

    It needs 1/(sensitivity + specificity - 1)² times the pairs. Lee et al. 2025,
    https://arxiv.org/abs/2511.21140. Both rates come from labels by people. Raises ValueError if the judge is
    no better than chance.
    """
    skill = sensitivity + specificity - 1
    if skill <= 0:
        raise ValueError("a judge whose sensitivity and specificity add up to 1 or less says nothing about a difference")
    return difference / skill
