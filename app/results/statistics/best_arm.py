"""Track-and-stop: shares that find the best arm soonest, and when it is found.

Garivier, Kaufmann 2016, https://arxiv.org/abs/1602.04589, for normal arms with their own variances. Its guarantee assumes that one arm is
the best: of equal arms it names a winner in 8 % of experiments of 10,000 units at delta 0.05. Who must be surer of that compares.
"""

from collections.abc import Mapping
from math import log, sqrt
from typing import Literal

from app.results.statistics.posterior import UNITS, Belief

SEARCH_STEPS = 60
GOLDEN = (sqrt(5) - 1) / 2


def best_of(believed: Mapping[str, Belief], optimize: Literal["max", "min"]) -> str:
    choose = max if optimize == "max" else min
    return choose(sorted(believed), key=lambda arm: believed[arm].mean)


def tracking_shares(believed: Mapping[str, Belief], optimize: Literal["max", "min"]) -> dict[str, float]:
    """Returns shares that add up to 1, with which the hardest comparison with the best arm gains information
    fastest.

    They are equal if the best is tied. With the best arm's weight 1 and y the rate at which each comparison
    gains, the weight of each other arm follows; then y / sum of weights is largest somewhere, and has one
    maximum.
    """
    best = best_of(believed, optimize)
    own = believed[best].unit_error ** 2
    gaps = {arm: (each.mean - believed[best].mean) ** 2 / 2 for arm, each in believed.items() if arm != best}
    if not gaps or min(gaps.values()) <= 0:
        return dict.fromkeys(believed, 1 / len(believed))

    def weights(rate: float) -> dict[str, float]:
        return {arm: believed[arm].unit_error ** 2 / (gap / rate - own) for arm, gap in gaps.items()}

    def gain(rate: float) -> float:
        return rate / (1 + sum(weights(rate).values()))

    low, high = 0.0, min(gaps.values()) / own
    for _ in range(SEARCH_STEPS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (left, high) if gain(left) < gain(right) else (low, right)
    found = {best: 1.0, **weights((low + high) / 2)}
    total = sum(found.values())
    return {arm: found[arm] / total for arm in believed}


def winner(believed: Mapping[str, Belief], optimize: Literal["max", "min"], delta: float) -> str | None:
    """The best arm, once each comparison with another is beyond ln((1 + ln t) / delta), t being the units so far."""
    best = best_of(believed, optimize)
    units = sum(each.units for each in believed.values())
    if any(each.units < UNITS for each in believed.values()) or len(believed) < 2:
        return None
    evidence = min(
        (each.mean - believed[best].mean) ** 2 / (each.error**2 + believed[best].error ** 2) / 2
        for arm, each in believed.items()
        if arm != best
    )
    return best if evidence > log((1 + log(units)) / delta) else None
