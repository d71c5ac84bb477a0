"""The difference of two rates, exact, from counts alone: at any time, for any rates that drift as they like, without a burn-in.

A bet on each unit: x = (y - c) (a / pi - (1 - a) / (1 - pi)) has the difference of the rates as its mean, whatever c and the rates are
(a: 1 for the arm, pi: its probability), so the product of 1 + lambda (x - m) is evidence against a difference of at most m. With
lambda = eta pi (1 - pi) for one eta over all units, the product depends on how many units had which outcome in which arm, not on their
order, and every version adds its own. At m = 0 and c = 0 it is the test of boolean_counts.py, which looks at successes only; with a c
near the rate the bet needs as few units as a z-test would. Averages over eta and c are evidence as well.

Betting: Waudby-Smith, Ramdas 2024, https://arxiv.org/abs/2010.09686; with inverse propensities: Waudby-Smith, Wu, Ramdas, Karampatziakis,
Mineiro 2022, https://arxiv.org/abs/2210.10768; the test it extends: Lindon, Malek 2022, https://arxiv.org/abs/2011.03567.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import log, log1p, sqrt

from msgspec import Struct

from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.mixture import log_average, normalised
from app.results.statistics.pairs import Pair
from app.results.statistics.roots import root
from app.results.statistics.tuning import optimal_kappa

LARGEST_BET = 0.95  # below 1 no bet can lose everything, at no difference and no probability
# Bets are a factor of 1.3 apart: at what can just be detected the best one lies within a third of itself.
BETS = tuple(LARGEST_BET * 1.3**-power for power in range(27))
# Rates to centre at, each with the variance of a unit that it is tuned to.
CENTRES = ((0.0, 0.02), (0.3, 0.21), (0.7, 0.21), (1.0, 0.02))
# What an expected rate gets of the average.
EXPECTED_SHARE = 0.6
RARE = 0.1


class Cells(Struct, frozen=True):
    """Units of all versions with the same probability of the arm."""

    probability: float
    arm_ones: int
    arm_zeros: int
    control_ones: int
    control_zeros: int


class Evidence:
    """Evidence on the difference, arm less control. `planned_overlap` tunes (pairs.py), and so does a rate that was expected beforehand."""

    def __init__(self, found: Sequence[Pair], planned_overlap: float, alpha: float, expected_rate: float | None = None) -> None:
        self._cells = merged(found)
        self._bets = bets(planned_overlap, alpha, expected_rate)
        self._alpha = alpha

    def log_e_value_above(self, difference: float) -> float:
        """Returns one-sided evidence that the arm's rate less the control's is more than this."""
        return self._log_e_value(difference, 1)

    def log_e_value_below(self, difference: float) -> float:
        return self._log_e_value(difference, -1)

    def log_e_value(self, difference: float = 0.0) -> float:
        """Returns two-sided evidence: half of the stronger side, so that it excludes what the interval
        excludes.
        """
        return max(self.log_e_value_above(difference), self.log_e_value_below(difference)) - log(2)

    def interval(self) -> Interval:
        """Returns the differences that are not excluded, within -1 and 1."""
        return Interval(self.lower_bound(self._alpha / 2), self.upper_bound(self._alpha / 2))

    def lower_bound(self, alpha: float) -> float:
        return root(lambda value: distance(self.log_e_value_above(value), alpha), -1.0, 1.0)

    def upper_bound(self, alpha: float) -> float:
        return -root(lambda value: distance(self.log_e_value_below(-value), alpha), -1.0, 1.0)

    def _log_e_value(self, difference: float, sign: int) -> float:
        centres, log_weights, etas = self._bets
        values: list[float] = []
        for centre, eta in zip(centres, etas, strict=True):
            signed, total = sign * eta, 0.0
            for each in self._cells:
                pi = each.probability
                middle = pi * (1 - pi) * difference
                of_arm, of_control = signed * (1 - pi), signed * pi
                total += each.arm_ones * log1p(of_arm * (1 - centre) - signed * middle)
                total += each.arm_zeros * log1p(-of_arm * centre - signed * middle)
                total += each.control_ones * log1p(-of_control * (1 - centre) - signed * middle)
                total += each.control_zeros * log1p(of_control * centre - signed * middle)
            values.append(total)
        return log_average(log_weights, values)


def distance(log_e: float, alpha: float) -> float:
    """Returns the distance from what excludes a difference, in roots, because these are nearly linear in it."""
    return sqrt(max(log_e, 0.0)) - sqrt(-log(alpha))


def merged(found: Sequence[Pair]) -> list[Cells]:
    of: dict[float, Cells] = {}
    for pair in found:
        before = of.get(pair.probability, Cells(pair.probability, 0, 0, 0, 0))
        of[pair.probability] = Cells(
            pair.probability,
            before.arm_ones + pair.arm.ones,
            before.arm_zeros + pair.arm.zeros,
            before.control_ones + pair.control.ones,
            before.control_zeros + pair.control.zeros,
        )
    return list(of.values())


@lru_cache(maxsize=256)
def bets(planned_overlap: float, alpha: float, expected_rate: float | None) -> tuple[list[float], list[float], list[float]]:
    """Returns centres, logarithms of weights, and etas.

    Weights are normal around no bet, as in the other sequences: eta is a difference over its variance.
    """
    weighted = [(centre, unit_variance, 1 / len(CENTRES)) for centre, unit_variance in CENTRES]
    if expected_rate is not None:
        rest = (1 - EXPECTED_SHARE) / len(CENTRES)
        near = 0.0 if expected_rate < RARE else 1.0 if expected_rate > 1 - RARE else expected_rate
        unit_variance = max(expected_rate * (1 - expected_rate), 0.001)
        weighted = [(near, unit_variance, EXPECTED_SHARE), *((centre, each, rest) for centre, each in CENTRES)]
    centres: list[float] = []
    log_weights: list[float] = []
    for centre, unit_variance, share in weighted:
        precision = planned_overlap * unit_variance / optimal_kappa(alpha)
        centres += [centre] * len(BETS)
        log_weights += [log(share) + each for each in normalised([log(eta) - eta * eta * precision / 2 for eta in BETS])]
    return centres, log_weights, list(BETS) * len(weighted)
