"""What the start of an experiment froze about one metric."""

from typing import Literal

from msgspec import Struct

from app.analytics.statistics.burn_in import MetricKind


class Plan(Struct, frozen=True):
    """How one metric of one arm is compared with the control.

    `kind`: "boolean" if a unit's value is usually 0 or 1; "heavy_tailed" for latency, cost and tokens. `alpha`: what this comparison may
    spend, after the split over arms and metrics (multiplicity.py). `planned_units`: of both arms together. `capped`: values are cut at a
    bound of the settings. `equal_within`: a difference so small is none worth waiting for. `expected_rate`: of booleans, a guess from
    before the start, such as 0.02 for errors; intervals are narrower where it is about right, and hold where it is wrong.
    """

    kind: MetricKind
    optimize: Literal["max", "min"]
    alpha: float = 0.05
    planned_units: int = 10_000
    capped: bool = False
    equal_within: float | None = None
    expected_rate: float | None = None
