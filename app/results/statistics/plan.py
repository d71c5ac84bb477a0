"""What the start of an experiment froze about one metric."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from app.results.statistics.burn_in import MetricKind
from app.results.statistics.pairs import Pair


class Plan(Struct, frozen=True):
    """How one metric of one arm is compared with the control.

    `kind`: "boolean" if a unit's value is usually 0 or 1; "heavy_tailed" for latency, cost and tokens. `complete`: every unit has a value,
    as of errors. Of feedback some is missing, perhaps more in one arm than in the other. `alpha`: what this comparison may spend, after the
    split over arms and metrics (multiplicity.py). `planned_units`: of both arms together. `cap`: values are cut at it, by the settings;
    None: they are not. `equal_within`: a difference so small is none worth waiting for. `expected_rate`: of complete booleans, a guess from
    before the start, such as 0.02 for errors; intervals are narrower where it is about right, and hold where it is wrong.
    """

    kind: MetricKind
    optimize: Literal["max", "min"]
    alpha: float = 0.05
    planned_units: int = 10_000
    cap: float | None = None
    equal_within: float | None = None
    expected_rate: float | None = None
    complete: bool = False

    def by_counts(self, found: Sequence[Pair]) -> bool:
        """Whether the exact test of counts applies. It knows how units were split, not how those who gave feedback were."""
        return self.kind == "boolean" and self.complete and all(pair.control.is_boolean and pair.arm.is_boolean for pair in found)
