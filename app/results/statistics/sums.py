"""Sums of the values of an experiment's units, by arm, version and kind of unit.

They are what is kept of the units. All formulas start from these.
"""

from collections.abc import Mapping

from msgspec import Struct


class UnitSums(Struct, frozen=True):
    """Sums over complete units, each with one value y of a metric and one covariate x from before its
    assignment.

    x is 0 without a covariate. Of integers (microseconds, micro-dollars) sums stay exact, in any order.
    """

    n: int = 0  # units
    y: float = 0  # the sum of values
    yy: float = 0  # the sum of their squares; `x`, `xx` and `xy` likewise
    zeros: int = 0  # units with the value 0; `ones` likewise
    ones: int = 0
    x: float = 0
    xx: float = 0
    xy: float = 0

    @property
    def is_boolean(self) -> bool:
        return self.zeros + self.ones == self.n

    def __add__(self, other: "UnitSums") -> "UnitSums":
        return UnitSums(
            self.n + other.n,
            self.y + other.y,
            self.yy + other.yy,
            self.zeros + other.zeros,
            self.ones + other.ones,
            self.x + other.x,
            self.xx + other.xx,
            self.xy + other.xy,
        )


class Stratum(Struct, frozen=True):
    """Units that were assigned with the same probabilities: those of one version, and of one kind of episode.

    Arms are compared within a stratum only: over strata with different weights, what changes with time looks
    like a difference of arms.
    """

    version: int
    episode_kind: str | None  # see EpisodeKind in app/domain/experiments.py; None if the unit is no episode
    probabilities: Mapping[str, float]  # by arm, with which a unit that takes part was assigned to it
    arms: Mapping[str, UnitSums]
