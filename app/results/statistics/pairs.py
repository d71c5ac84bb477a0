"""A control and an arm beside each other in each stratum: what every comparison of two arms starts from."""

from collections.abc import Sequence

from msgspec import Struct

from app.results.statistics.sums import Stratum, UnitSums

NO_UNITS = UnitSums()


class Pair(Struct, frozen=True):
    """A control and an arm in one stratum."""

    version: int
    probability: float  # with which a unit of these two arms got `arm` and not the control
    control: UnitSums
    arm: UnitSums

    @property
    def overlap(self) -> float:
        """The units' weight in comparisons: n1 n0 / (n1 + n0). The variance of a difference is that of a unit over this."""
        total = self.control.n + self.arm.n
        return self.control.n * self.arm.n / total if total else 0.0


def pairs(strata: Sequence[Stratum], control: str, arm: str) -> list[Pair]:
    """Returns pairs by version.

    Strata in which one of the two had no chance are left out: they compare nothing.
    """
    found: list[Pair] = []
    for stratum in sorted(strata, key=lambda each: each.version):
        of_control, of_arm = stratum.probabilities.get(control, 0.0), stratum.probabilities.get(arm, 0.0)
        if of_control > 0 and of_arm > 0:
            sums = stratum.arms.get(control, NO_UNITS), stratum.arms.get(arm, NO_UNITS)
            found.append(Pair(stratum.version, of_arm / (of_control + of_arm), *sums))
    return found


def planned_overlap(found: Sequence[Pair], planned_units: int) -> float:
    """The overlap that so many units, of both arms together, will have by the split of the first version: it was frozen by the start."""
    first = found[0].probability
    return planned_units * first * (1 - first)
