"""Beliefs about each arm's value, for rules that adapt weights: a normal posterior with a flat prior.

Values are weighted by propensities (propensity.py), so weights that followed earlier results, and drift, do
not bias them. It is a belief, to allocate by; whether one arm is better than another is decided by a
comparison (compare.py).
"""

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from app.results.statistics.pairs import NO_UNITS
from app.results.statistics.propensity import weighted_value
from app.results.statistics.sums import Stratum

# Before that many units an arm's posterior is not relied on.
UNITS = 10


class Belief(Struct, frozen=True):
    """The belief about one arm.

    `error` is the standard error of the mean, `unit_error` that of one unit, as it counts here.
    """

    mean: float
    error: float
    units: int

    @property
    def unit_error(self) -> float:
        return self.error * sqrt(self.units)


def beliefs(strata: Sequence[Stratum], arms: Sequence[str]) -> dict[str, Belief] | None:
    """Returns beliefs by arm, or None while an arm has too few units.

    Versions in which one of `arms` had no chance are left out.
    """
    held = [each for each in strata if all(each.probabilities.get(arm, 0.0) > 0 for arm in arms)]
    overlap = [1 / sum(1 / each.probabilities[arm] for arm in arms) for each in held]
    found: dict[str, Belief] = {}
    for arm in arms:
        parts = [each.arms.get(arm, NO_UNITS) for each in held]
        weights = [weight / each.probabilities[arm] for weight, each in zip(overlap, held, strict=True)]
        weighted, units = weighted_value(parts, weights), sum(part.n for part in parts)
        if weighted is None or units < UNITS:
            return None
        # Units that are all the same say less than that they always will be: one more unit could differ by as much as the mean itself.
        least = (abs(weighted.value) or 1.0) / units
        found[arm] = Belief(weighted.value, max(sqrt(weighted.variance), least), units)
    return found
