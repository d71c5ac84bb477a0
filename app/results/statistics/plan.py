"""Plans: what the start of an experiment froze about one metric."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from app.results.statistics.burn_in import MetricKind
from app.results.statistics.pairs import Pair


class Plan(Struct, frozen=True):
    """The way in which one metric of one arm is compared with the control."""

    # "boolean" if a unit's value is usually 0 or 1; "heavy_tailed" for latency, cost and tokens
    kind: MetricKind
    optimize: Literal["max", "min"]
    # what this comparison may spend, after the split over arms and metrics (multiplicity.py)
    alpha: float = 0.05
    planned_units: int = 10_000  # of both arms together
    cap: float | None = None  # values are cut at it, by the settings; None if they are not
    equal_within: float | None = None  # a difference so small is none worth waiting for
    # Of complete booleans, a guess from before the start, such as 0.02 for errors; intervals are narrower
    # where it is about right, and hold where it is wrong.
    expected_rate: float | None = None
    # Every unit has a value, as of errors. Of feedback some is missing, perhaps more in one arm than in the
    # other.
    complete: bool = False

    def by_counts(self, found: Sequence[Pair]) -> bool:
        """Returns whether the exact test of counts applies.

        It knows how units were split, not how those who gave feedback were.
        """
        return self.kind == "boolean" and self.complete and all(pair.control.is_boolean and pair.arm.is_boolean for pair in found)
