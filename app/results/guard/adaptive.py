"""Adaptive weights: the next weights of an experiment from the results so far, within bounds, with what they were computed from.

thompson: an arm's share is the probability that it is the best. best_arm (track-and-stop): shares that find the best arm with the fewest
units; once its differences to all others are clear of 0, it gets all but their minimum shares. Either way each arm that takes part keeps
the minimum share, so every unit has a known probability above 0 of each arm, and results by version stay unbiased.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from app.results.guard.facts import ExperimentFacts, Results
from app.results.statistics.best_arm import best_of, tracking_shares
from app.results.statistics.burn_in import UNITS
from app.results.statistics.compare import compare
from app.results.statistics.pairs import NO_UNITS
from app.results.statistics.posterior import Belief, beliefs
from app.results.statistics.sums import Stratum
from app.results.statistics.thompson import probabilities_of_best, shares

# Smaller changes, and such after fewer new units, are not worth a version.
MIN_CHANGE = 0.01
MIN_NEW_UNITS = 100
# Exact results cost as much again for each further split, so shares are of few values: multiples of the first of these that is no more
# than the minimum share, and by which the largest one loses little.
_STEPS = (100, 1_000, 10_000, 1_000_000)  # parts of 1
_LARGEST_LOSS = 0.05


class Proposal(Struct, frozen=True, kw_only=True):
    """The next weights, and what they were computed from."""

    rule: Literal["thompson", "best_arm"]
    weights: Mapping[str, float]  # of all arms; those that take no part keep theirs
    shares: Mapping[str, float]  # of the arms that take part
    believed: Mapping[str, Belief]
    units: int  # of all arms, that it was computed from
    best: Mapping[str, float] | None = None  # by thompson, the probability of each arm to be the best
    winner: str | None = None  # by best_arm, if one was found


class NoProposal(Struct, frozen=True):
    """The `reason`, a sentence, why the weights stay."""

    reason: str


def propose_weights(facts: ExperimentFacts, results: Results, last_units: int) -> Proposal | NoProposal:
    """Returns the next weights, or why they stay.

    `last_units` is the number of units from which the weights in force were computed, 0 if no rule computed
    them.
    """
    adaptive = facts.adaptive
    if adaptive is None:
        return NoProposal("The experiment has no adaptive rule.")
    arms = [arm for arm in sorted(facts.arms) if facts.enrols(arm)]
    if len(arms) < 2:
        return NoProposal("Fewer than two arms take new units.")
    strata = results.get(facts.primary, ())
    by_arm = {arm: sum(stratum.arms.get(arm, NO_UNITS).n for stratum in strata) for arm in arms}
    fewest = min(arms, key=by_arm.__getitem__)
    if by_arm[fewest] < UNITS:
        return NoProposal(f"{fewest} has {by_arm[fewest]} complete units, of at least {UNITS} before the first change.")
    units = sum(by_arm.values())
    if units < last_units + MIN_NEW_UNITS:
        return NoProposal(f"{max(0, units - last_units)} units are complete since the last change, of at least {MIN_NEW_UNITS}.")
    believed = beliefs(strata, arms)
    if believed is None:
        return NoProposal("No version of the weights gave all arms a chance.")
    optimize = facts.direction(facts.primary)
    best: dict[str, float] | None = None
    winner: str | None = None
    if adaptive.rule == "thompson":
        wanted = best = probabilities_of_best(believed, optimize)
    else:
        winner = _find_winner(facts, strata, best_of(believed, optimize), arms)
        wanted = tracking_shares(believed, optimize) if winner is None else {arm: float(arm == winner) for arm in arms}
    minimum = min(adaptive.minimum_share, 1 / len(arms))
    floored = _round(shares(wanted, minimum), minimum)
    total = sum(facts.arms[arm] for arm in arms)
    if max(abs(floored[arm] - facts.arms[arm] / total) for arm in arms) < MIN_CHANGE:
        return NoProposal("The shares are as the rule wants them.")
    weights = {**facts.arms, **{arm: share * total for arm, share in floored.items()}}
    return Proposal(rule=adaptive.rule, weights=weights, shares=floored, believed=believed, units=units, best=best, winner=winner)


def _find_winner(facts: ExperimentFacts, strata: Sequence[Stratum], best: str, arms: Sequence[str]) -> str | None:
    """Returns the arm that is better than each other one, or None if there is none.

    With probability 1 - alpha it is never another than the best: for that it would have to beat the best one,
    so each comparison gets as its one side an equal part of alpha.
    """
    plan = facts.plan(facts.primary, min(0.5, 2 * facts.analysis.alpha / len(arms)))
    others = [arm for arm in arms if arm != best]
    return best if all(compare(strata, other, best, plan).verdict == "better" for other in others) else None


def _round(exact: Mapping[str, float], minimum: float) -> dict[str, float]:
    """Rounds shares to multiples that add up to 1.

    Each is rounded upwards, so that none falls below its minimum, and the largest gets the rest.
    """
    largest = max(exact, key=exact.__getitem__)
    rounded: dict[str, float] = {}
    for parts in _STEPS:
        rounded = {arm: math.ceil(share * parts - 1e-6) / parts for arm, share in exact.items()}
        rounded[largest] = round(1 - sum(share for arm, share in rounded.items() if arm != largest), 6)
        if 1 / parts <= minimum <= rounded[largest] and exact[largest] - rounded[largest] <= _LARGEST_LOSS:
            break
    return rounded
