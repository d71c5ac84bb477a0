"""Thompson sampling: an arm's share is the probability that it is the best, never below a floor.

Thompson 1933, https://doi.org/10.1093/biomet/25.3-4.285; with arms' probabilities as weights for a batch: Scott 2010,
https://doi.org/10.1002/asmb.874. Plain means after adaptive weights are biased, so results stay stratified by version, and no share is
ever 0: what is never tried cannot be estimated.
"""

from collections.abc import Mapping
from math import exp
from statistics import NormalDist
from typing import Literal

from app.results.statistics.posterior import Belief

POINTS = 400
REACH = 8.0  # standard errors


def probabilities_of_best(believed: Mapping[str, Belief], optimize: Literal["max", "min"]) -> dict[str, float]:
    """Returns the probability of each arm that all others are worse, by numerical integration over the arm's
    value.
    """
    sign = 1 if optimize == "max" else -1
    means = {arm: sign * each.mean for arm, each in believed.items()}
    found: dict[str, float] = {}
    for arm, own in believed.items():
        others = [NormalDist(means[other], each.error) for other, each in believed.items() if other != arm]
        total = 0.0
        for point in range(POINTS + 1):
            deviations = REACH * (2 * point / POINTS - 1)
            density = exp(-deviations * deviations / 2)
            for other in others:
                density *= other.cdf(means[arm] + deviations * own.error)
            total += density
        found[arm] = total
    together = sum(found.values())
    return {arm: each / together for arm, each in found.items()}


def shares(probabilities: Mapping[str, float], minimum_share: float) -> dict[str, float]:
    """Returns shares that add up to 1, none below the minimum; all equal if the minimum leaves nothing to
    give.
    """
    spare = max(0.0, 1 - minimum_share * len(probabilities))
    least = (1 - spare) / len(probabilities)
    return {arm: least + spare * each for arm, each in probabilities.items()}
