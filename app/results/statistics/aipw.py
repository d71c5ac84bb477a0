"""Augmented inverse propensity weighting: the difference of two arms from units one by one, whatever their probabilities followed.

x = (y - m) (a / pi - (1 - a) / (1 - pi)) with the logged pi and m from before the unit has the difference as its mean; sums of it obey
the same boundary as any other (confidence_sequence.py). Robins, Rotnitzky, Zhao 1994, https://doi.org/10.1080/01621459.1994.10476818;
adaptive data: Hadad, Hirshberg, Zhan, Wager, Athey 2021, https://arxiv.org/abs/1911.02768. Where sums by version are kept, strata need
neither the order of units nor their probabilities.
"""

from math import sqrt

from msgspec import Struct

from app.results.statistics.confidence_sequence import Interval, interval
from app.results.statistics.tuning import kappa


class Aipw(Struct):
    """Add units in the order in which they were assigned, then ask for the interval."""

    units: int = 0
    total: float = 0.0
    squares: float = 0.0
    values: float = 0.0

    def add(self, value: float, of_arm: bool, probability: float) -> None:
        """Adds a unit.

        `probability` is that of the arm, among itself and the control, at this unit's assignment.
        """
        expected = self.values / self.units if self.units else value
        x = (value - expected) * (1 / probability if of_arm else -1 / (1 - probability))
        self.units += 1
        self.values += value
        self.total += x
        self.squares += x * x

    @property
    def difference(self) -> float:
        return self.total / self.units

    def interval(self, planned_units: int, alpha: float) -> Interval:
        """Returns the interval of the difference.

        It needs a burn-in as any asymptotic sequence does (burn_in.py): whoever calls it counts the units of
        each arm.
        """
        spread = self.squares - self.total**2 / self.units
        return interval(self.difference, sqrt(spread) / self.units, kappa(self.units, planned_units, alpha), alpha)
