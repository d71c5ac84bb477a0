"""How much worse one arm is than another, over strata with different weights: the asymptotic sequence of overlap weights.

Strata weigh by their counts alone, n1 n0 / (n1 + n0): not by estimated variances, which correlate with the estimates. The clock of the
sequence is the sum of these weights, so its tuning is a number of units, whatever the metric's own unit is.

Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences (arXiv 2103.06476); Howard et al. (1810.08240).
"""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

from msgspec import Struct

from app.analytics.statistics.sums import Stratum, UnitSums

# Burn-in of a stratum: before that many units of each arm, the sequence promises nothing. Of booleans, so many of each outcome, too.
MIN_UNITS = 100
MIN_OUTCOMES = 10
# Costs, latencies and the like have heavy tails, and with a split that is not equal their skewness does not cancel.
MIN_UNITS_UNEQUAL = 500
_EQUAL = (0.45, 0.55)
_NORMAL = NormalDist()


class PairDifference(Struct, frozen=True):
    """`estimate`: of the arm's mean less the other's. `clock`: the sum of the weights of strata, n/4 for n units in two equal arms.

    `units`: of the arm and of the other, in strata past their burn-in.
    """

    estimate: float
    variance: float
    clock: float
    units: tuple[int, int]
    strata: int


def is_burned_in(arm: UnitSums, other: UnitSums, p: float, *, capped: bool) -> bool:
    """`p`: the probability of the arm among both. `capped`: values have a bound."""
    both = (arm, other)
    if min(each.n for each in both) < MIN_UNITS:
        return False
    if all(each.is_boolean for each in both):
        return all(min(each.zeros, each.ones) >= MIN_OUTCOMES for each in both)
    if _EQUAL[0] <= p <= _EQUAL[1]:
        return True
    return capped and min(each.n for each in both) >= MIN_UNITS_UNEQUAL


def compare(strata: Iterable[Stratum], arm: str, other: str, *, capped: bool) -> PairDifference | None:
    """None: no stratum is past its burn-in."""
    total = weighted = variance = 0.0
    units, count = [0, 0], 0
    for stratum in strata:
        one, two = stratum.arms.get(arm, UnitSums()), stratum.arms.get(other, UnitSums())
        p = pair_probability(stratum, arm, other)
        if p is None or not is_burned_in(one, two, p, capped=capped):
            continue
        weight = one.n * two.n / (one.n + two.n)
        total += weight
        weighted += weight * (one.y / one.n - two.y / two.n)
        variance += weight**2 * (_variance(one) / one.n + _variance(two) / two.n)
        units[0] += one.n
        units[1] += two.n
        count += 1
    if not count or variance <= 0:
        return None
    return PairDifference(weighted / total, variance / total**2, total, (units[0], units[1]), count)


def pair_probability(stratum: Stratum, arm: str, other: str) -> float | None:
    """Of the arm, among units of both; None: only one of both was possible."""
    one, two = stratum.probabilities.get(arm, 0.0), stratum.probabilities.get(other, 0.0)
    return one / (one + two) if one > 0 and two > 0 else None


def tuning(planned_units: int, alpha: float) -> float:
    """The clock's constant for which the sequence is narrowest at `planned_units` of both arms, if they are equal."""
    return planned_units / 4 / _growth(alpha)


def log_e_above(difference: PairDifference, margin: float, planned_units: int, alpha: float) -> float:
    """The logarithm of the evidence that the difference is more than `margin`: 1/alpha at most, else it is.

    `alpha`: one-sided; it chooses the tuning, which must be the same at each look.
    """
    rho = tuning(planned_units, min(0.5, 2 * alpha))
    z = (difference.estimate - margin) / math.sqrt(difference.variance)
    share = difference.clock / (difference.clock + rho)
    return math.log(2) + 0.5 * math.log1p(-share) + z * z / 2 * share + _log_cdf(z * math.sqrt(share))


def log_e_below(difference: PairDifference, margin: float, planned_units: int, alpha: float) -> float:
    mirrored = PairDifference(-difference.estimate, difference.variance, difference.clock, difference.units, difference.strata)
    return log_e_above(mirrored, -margin, planned_units, alpha)


def interval(difference: PairDifference, planned_units: int, alpha: float) -> tuple[float, float]:
    """Two-sided: the difference is within it at all times with probability 1 - alpha."""
    rho = tuning(planned_units, alpha)
    clock = difference.clock
    half = math.sqrt((1 + rho / clock) * math.log((clock + rho) / (rho * alpha**2)) * difference.variance)
    return difference.estimate - half, difference.estimate + half


def exceeds(difference: PairDifference, margin: float, planned_units: int, alpha: float) -> bool:
    return log_e_above(difference, margin, planned_units, alpha) >= -math.log(alpha)


def total_units(strata: Sequence[Stratum], arm: str) -> int:
    return sum(stratum.arms[arm].n for stratum in strata if arm in stratum.arms)


def _variance(sums: UnitSums) -> float:
    return max(0.0, sums.yy - sums.y**2 / sums.n) / max(1, sums.n - 1)


def _growth(alpha: float) -> float:
    """The solution x of x - ln(1 + x) = -2 ln(alpha)."""
    wanted, x = -2 * math.log(alpha), 8.0
    for _ in range(60):
        x = wanted + math.log1p(x)
    return x


def _log_cdf(value: float) -> float:
    if value > -30:
        return math.log(max(0.5 * math.erfc(-value / math.sqrt(2)), 5e-324))
    return -value * value / 2 - math.log(-value * math.sqrt(2 * math.pi))
