"""Values of arms over many small versions, each unit weighted by what its version's probabilities say: for weights that adapt.

A unit counts h over its arm's probability, with h = 1 / sum of 1/probability over the arms: overlap weights from the probabilities of
the assignment instead of the counts, so a version needs no units of each arm. In expectation every version weighs the same in all arms,
so neither drift nor weights that follow results look like a difference. Li, Morgan, Zaslavsky 2018, https://arxiv.org/abs/1404.1785;
several arms: Li, Li 2019, https://arxiv.org/abs/1808.05339.
"""

from collections.abc import Sequence

from msgspec import Struct

from app.results.statistics.pairs import Pair
from app.results.statistics.strata import Contrast
from app.results.statistics.sums import UnitSums


class Weighted(Struct, frozen=True):
    """A weighted value of an arm. `variance` is that of `value`."""

    value: float
    variance: float


def weighted_value(parts: Sequence[UnitSums], weights: Sequence[float], unseen: float = 0.0) -> Weighted | None:
    """Returns the value of one arm from sums of its units in each version and the weight of each such unit.

    Returns None without two units. `unseen` (see unseen_squares()) is of the largest weight.
    """
    total = sum(weight * part.n for part, weight in zip(parts, weights, strict=True))
    units = sum(part.n for part in parts)
    if units < 2 or total <= 0:
        return None
    value = sum(weight * part.y for part, weight in zip(parts, weights, strict=True)) / total
    squares = sum(
        weight**2 * max(0.0, part.yy - 2 * value * part.y + part.n * value**2) for part, weight in zip(parts, weights, strict=True)
    )
    return Weighted(value, squares / total**2 * units / (units - 1) + unseen * (max(weights) / total) ** 2)


def propensity_weighted(found: Sequence[Pair], unseen: float = 0.0) -> Contrast | None:
    """The difference of an arm and the control over versions that lack units to be strata of their own."""
    control = weighted_value([pair.control for pair in found], [pair.probability for pair in found], unseen)
    arm = weighted_value([pair.arm for pair in found], [1 - pair.probability for pair in found], unseen)
    if control is None or arm is None:
        return None
    return Contrast(
        difference=arm.value - control.value,
        variance=arm.variance + control.variance,
        unadjusted_variance=arm.variance + control.variance,
        control=control.value,
        control_variance=control.variance,
        arm=arm.value,
        arm_variance=arm.variance,
        overlap=sum((pair.control.n + pair.arm.n) * pair.probability * (1 - pair.probability) for pair in found),
        control_units=sum(pair.control.n for pair in found),
        arm_units=sum(pair.arm.n for pair in found),
    )
