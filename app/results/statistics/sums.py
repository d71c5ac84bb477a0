"""What is kept of the units of an experiment: sums of their values, by arm, version and kind of unit. All formulas start from these."""

from collections.abc import Mapping

from msgspec import Struct


class UnitSums(Struct, frozen=True):
    """Sums over complete units, each of which has one value y of a metric, and one covariate x from before its assignment (0 without one).

    `n`: units. `y`, `yy`: the sum of values, and of their squares; `x`, `xx`, `xy`: likewise. `zeros`, `ones`: units with that value.
    Of integers (microseconds, micro-dollars) sums stay exact, in any order.
    """

    n: int = 0
    y: float = 0
    yy: float = 0
    zeros: int = 0
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
    """Units that were assigned with the same probabilities: those of one version of an experiment, and of one kind of episode.

    Arms are compared within a stratum only: over strata with different weights, what changes with time looks like a difference of arms.
    `episode_kind`: see EpisodeKind in app/domain.py; None: the unit is no episode. `probabilities`: by arm, with which a unit that takes
    part was assigned to it.
    """

    version: int
    episode_kind: str | None
    probabilities: Mapping[str, float]
    arms: Mapping[str, UnitSums]
