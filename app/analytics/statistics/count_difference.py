"""How much more often units of an arm have something than those of the control: exact at any time, from counts alone.

A unit has y, 0 or 1, and was assigned to the arm with a known probability p. Then x = (y - c) (arm/p - control/(1 - p)) has the expectation
of the difference of both rates, whatever the rate does over time and whatever c is. Betting on the x of each unit that the difference is
more than m, with a fixed share of the stake, gives a supermartingale if it is not, so by Ville's inequality its value reaches 1/alpha with
probability alpha at most, at any time, for any number of units. x has four values, so the product over units is one over four counts in
each stratum: it does not depend on their order. No burn-in, no rate that is too low. Bets of several sizes, and several c, are averaged.

Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (arXiv 2010.09686), with inverse propensities as in
Waudby-Smith et al., Anytime-valid off-policy inference (arXiv 2210.10768).
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from app.analytics.statistics.sums import Stratum, UnitSums

# Shares of the largest bet, and c with their parts of the stake: 0 for rare things, 1 for common ones.
_BETS = tuple(0.95 * 0.5**power for power in range(10))
_CENTRES = ((0.0, 0.5), (0.5, 0.25), (1.0, 0.25))
_STEPS = 40  # of a bisection


class Cell(Struct, frozen=True):
    """Counts of one stratum: units of the arm and of the control that have it and that do not. `p`: of the arm, among both."""

    p: float
    arm_ones: int
    arm_zeros: int
    control_ones: int
    control_zeros: int


def cells_of(strata: Iterable[Stratum], arm: str, control: str, *, counts: str = "ones") -> list[Cell]:
    """`counts`: "zeros" for the rate of units without it. Without strata in which only one of both arms was possible."""
    return [cell for stratum in strata if (cell := _cell(stratum, arm, control, counts)) is not None]


def _cell(stratum: Stratum, arm: str, control: str, counts: str) -> Cell | None:
    of_arm, of_control = stratum.probabilities.get(arm, 0.0), stratum.probabilities.get(control, 0.0)
    if of_arm <= 0 or of_control <= 0:
        return None
    one, other = stratum.arms.get(arm, UnitSums()), stratum.arms.get(control, UnitSums())
    p = of_arm / (of_arm + of_control)
    if counts == "zeros":
        return Cell(p, one.zeros, one.ones, other.zeros, other.ones)
    return Cell(p, one.ones, one.zeros, other.ones, other.zeros)


def log_e_above(cells: Sequence[Cell], margin: float) -> float:
    """The logarithm of the evidence that the arm's rate exceeds the control's by more than `margin`: at most 1/alpha, else it does."""
    return _log_e(cells, margin, 1.0)


def log_e_below(cells: Sequence[Cell], margin: float) -> float:
    """Likewise, that it exceeds it by less than `margin`."""
    return _log_e(cells, margin, -1.0)


def lower_bound(cells: Sequence[Cell], alpha: float) -> float:
    """The difference is above this at all times with probability 1 - alpha."""
    return -_bound(cells, alpha, -1.0)


def upper_bound(cells: Sequence[Cell], alpha: float) -> float:
    return _bound(cells, alpha, 1.0)


def _bound(cells: Sequence[Cell], alpha: float, sign: float) -> float:
    """The least margin that `sign` times the difference is known to be below."""
    needed = -math.log(alpha)
    low, high = -1.0, 1.0
    if _log_e(cells, sign * high, -sign) < needed:
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _log_e(cells, sign * middle, -sign) >= needed:
            high = middle
        else:
            low = middle
    return high


def _log_e(cells: Sequence[Cell], margin: float, sign: float) -> float:
    terms = [
        math.log(part / len(_BETS)) + sum(_log_capital(cell, margin, sign, centre, bet) for cell in cells)
        for centre, part in _CENTRES
        for bet in _BETS
    ]
    highest = max(terms)
    return highest + math.log(sum(math.exp(term - highest) for term in terms))


def _log_capital(cell: Cell, margin: float, sign: float, centre: float, bet: float) -> float:
    values = list(_values(cell, centre))
    # The largest stake that no unit can lose, whatever the margin is: so the result is monotone in the margin, and a bound can be searched.
    stake = bet / (1 + max(-sign * value for value, _ in values))
    return sum(count * math.log1p(stake * sign * (value - margin)) for value, count in values if count)


def _values(cell: Cell, centre: float) -> Iterator[tuple[float, int]]:
    yield (1 - centre) / cell.p, cell.arm_ones
    yield -centre / cell.p, cell.arm_zeros
    yield -(1 - centre) / (1 - cell.p), cell.control_ones
    yield centre / (1 - cell.p), cell.control_zeros
