"""The value of a metric in one arm, with a confidence sequence of its own."""

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from app.results.statistics.burn_in import unseen_squares, what_one_lacks
from app.results.statistics.confidence_sequence import Interval, interval
from app.results.statistics.moments import mean, variance
from app.results.statistics.pairs import NO_UNITS
from app.results.statistics.plan import Plan
from app.results.statistics.rate import rate_interval
from app.results.statistics.sums import Stratum, UnitSums
from app.results.statistics.tuning import kappa


class Estimate(Struct, frozen=True):
    """The value of a metric in one arm."""

    value: float
    # None if it is too early for one, or where only the difference has one (compare.py)
    interval: Interval | None
    units: int


def arm_estimate(strata: Sequence[Stratum], arm: str, plan: Plan) -> Estimate | None:
    """Returns the value of an arm on this traffic, or None without a unit.

    Each stratum counts by its units of all arms, so that arms with other shares in it can be read side by
    side.
    """
    holding = [each for each in strata if each.arms.get(arm, NO_UNITS).n]
    weights = [float(sum(sums.n for sums in each.arms.values())) for each in holding]
    return weighted_estimate([each.arms[arm] for each in holding], weights, plan)


def weighted_estimate(parts: Sequence[UnitSums], weights: Sequence[float], plan: Plan) -> Estimate | None:
    """Returns the mean of parts by these weights, or None without a unit."""
    if not parts:
        return None
    shares = [weight / sum(weights) for weight in weights]
    value = sum(share * mean(part) for share, part in zip(shares, parts, strict=True))
    total = sum(parts, NO_UNITS)
    if len(parts) == 1 and total.is_boolean:
        return Estimate(value, rate_interval(total.ones, total.zeros, plan.alpha), total.n)
    if any(what_one_lacks(part, plan.kind, plan.cap) for part in parts):
        return Estimate(value, None, total.n)
    unseen = unseen_squares(plan.kind, plan.cap)
    of_value = sum(share**2 * (variance(part) / part.n + unseen / part.n**2) for share, part in zip(shares, parts, strict=True))
    if of_value == 0:
        return Estimate(value, None, total.n)
    effective_units = 1 / sum(share**2 / part.n for share, part in zip(shares, parts, strict=True))
    information = kappa(effective_units, plan.planned_units / 2, plan.alpha)
    return Estimate(value, interval(value, sqrt(of_value), information, plan.alpha), total.n)
