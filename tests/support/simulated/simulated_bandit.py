"""An experiment whose weights follow its results, with the app's own rule and comparison."""

from dataclasses import dataclass

import numpy as np

from app.results.statistics.boolean_difference import Evidence
from app.results.statistics.pairs import pairs, planned_overlap
from app.results.statistics.plan import Plan
from app.results.statistics.posterior import beliefs
from app.results.statistics.sums import Stratum, UnitSums
from app.results.statistics.thompson import probabilities_of_best, shares

ARMS = ("control", "arm")
FLOOR = 0.05


@dataclass(frozen=True)
class Played:
    """The result of one simulated experiment."""

    missed: bool  # whether the interval of any look left out the true difference
    regret: float  # successes less than by always the best arm
    last_share: float
    pooled_z: float


def play(rates: tuple[float, float], drift: float, versions: int, units: int, plan: Plan, generator: np.random.Generator) -> Played:
    """Plays an experiment with a boolean metric.

    After each version of so many units, the weights become the probabilities of being the best. `drift` is how far the level of both arms
    swings, once over the experiment.
    """
    strata: list[Stratum] = []
    weights: dict[str, float] = dict.fromkeys(ARMS, 0.5)
    regret, missed = 0.0, False
    for version in range(versions):
        level = drift * float(np.sin(2 * np.pi * version / versions))
        of_arm = int(generator.binomial(units, weights["arm"]))
        sums: dict[str, UnitSums] = {}
        for arm, count, rate in zip(ARMS, (units - of_arm, of_arm), rates, strict=True):
            ones = int(generator.binomial(count, rate + level))
            sums[arm] = UnitSums(count, ones, ones, count - ones, ones)
            regret += count * (max(rates) - rate)
        strata.append(Stratum(version + 1, None, weights, sums))
        found = pairs(strata, *ARMS)
        evidence = Evidence(found, planned_overlap(found, plan.planned_units), plan.alpha)
        missed |= evidence.log_e_value(rates[1] - rates[0]) >= -np.log(plan.alpha)
        believed = beliefs(strata, ARMS)
        if believed is not None:
            weights = shares(probabilities_of_best(believed, "max"), FLOOR)
    control, arm = (sum((each.arms[name] for each in strata), UnitSums()) for name in ARMS)
    p0, p1 = control.y / control.n, arm.y / arm.n
    z = (p1 - p0 - (rates[1] - rates[0])) / np.sqrt(p0 * (1 - p0) / control.n + p1 * (1 - p1) / arm.n)
    return Played(bool(missed), regret, weights["arm"], float(z))
