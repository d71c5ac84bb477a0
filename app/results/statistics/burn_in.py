"""Burn-in: before an arm has enough units in a version, an asymptotic interval would be wrong more often than it says.

Bibaut, Kallus, Lindon 2022, https://arxiv.org/abs/2212.14411: the guarantee holds as the burn-in grows. The numbers are measured
(docs/statistics.md). Equal arms forgive, because their skewness cancels in a difference; unequal ones do not.
"""

from math import ceil
from typing import Literal

from app.results.statistics.pairs import Pair
from app.results.statistics.sums import UnitSums

MetricKind = Literal["boolean", "float", "heavy_tailed"]

UNITS = 100
UNITS_OF_HEAVY_TAILS = 500
OF_EACH_OUTCOME = 10
# The least with which rare values near the cap are no false differences in an arm of a hundredth to a half (docs/statistics.md).
UNSEEN = 2
# A split of 55:45 counts as equal.
EQUAL_WITHIN = 0.05


def what_lacks(pair: Pair, kind: MetricKind, cap: float | None) -> str | None:
    """Returns why there is no interval for these units yet, or None if there is one."""
    equal_split = is_equal(pair.probability)
    if kind != "boolean" and not equal_split and cap is None:
        return NO_CAP
    needed = units_needed(kind, equal_split)
    fewest = min(pair.control.n, pair.arm.n)
    if fewest < needed:
        return f"an arm has {fewest} complete units, and {needed} are needed"
    if min(fewest_of_an_outcome(pair.control), fewest_of_an_outcome(pair.arm)) < OF_EACH_OUTCOME:
        return "almost all units of an arm have the same value"
    return None


def what_one_lacks(sums: UnitSums, kind: MetricKind, cap: float | None) -> str | None:
    """Returns what one arm alone lacks.

    Nothing cancels its skewness, so it needs what arms of unequal shares need.
    """
    return what_lacks(Pair(0, 0.0, sums, sums), kind, cap)


def unseen_squares(kind: MetricKind, cap: float | None) -> float:
    """Returns what an arm's sum of squares may lack, as if UNSEEN more units had the value of the cap.

    Over n², it adds to the variance of the arm's mean. Of requests that take 5 seconds, and once in 500 times
    300, an arm of 500 units may have no long one: it would vary as those of 5 do.
    """
    return 0.0 if kind == "boolean" or cap is None else UNSEEN * cap**2


def units_needed(kind: MetricKind, equal_split: bool) -> int:
    """Returns how many units an arm needs.

    Nobody knows how heavy the tails of a float are, so with an unequal split it is treated as if they were.
    """
    return UNITS_OF_HEAVY_TAILS if kind == "heavy_tailed" or (kind == "float" and not equal_split) else UNITS


def burn_in_units(kind: MetricKind, share: float) -> int:
    """Returns how many units of both arms together give each as many as it needs, if `share` is the arm's."""
    return ceil(units_needed(kind, equal_split=is_equal(share)) / min(share, 1 - share))


def is_equal(share: float) -> bool:
    return abs(share - 0.5) <= EQUAL_WITHIN


def fewest_of_an_outcome(sums: UnitSums) -> int:
    """Returns the number of units whose value is not 0, or not 1, whichever are fewer."""
    return min(sums.n - sums.zeros, sums.n - sums.ones)


NO_CAP = "arms of unequal shares need a cap on the metric's values, chosen before the start"
