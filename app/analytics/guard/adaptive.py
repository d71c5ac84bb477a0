"""Adaptive weights: the next weights of an experiment from the results so far, within bounds, with what they were computed from.

thompson: an arm's share is the probability that it is the best. best_arm (track-and-stop): shares that find the best arm with the fewest
units; once the sequences of all its differences are clear of 0, it gets all but the floors. Either way each arm that takes part keeps the
minimum share, so every unit has a known probability above 0 for each arm, and the results stay unbiased, read by version.

Garivier and Kaufmann, Optimal best arm identification with fixed confidence (COLT 2016); Thompson (1933).
"""

import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from msgspec import Struct

from app.analytics.guard.arm_effects import ArmEffects, fit_effects, variance_between
from app.analytics.guard.facts import ExperimentFacts, Results
from app.analytics.statistics.burn_in import units_needed
from app.analytics.statistics.compare import compare
from app.analytics.statistics.sums import Stratum

# Smaller changes are not worth a version: each has a burn-in of its own.
MIN_CHANGE = 0.01
_DRAWS = 10_000
_DRAWS_OF_MANY = 2_000
_MANY_ARMS = 10
_DIGITS = 10**6
_NORMAL = NormalDist()


class Proposal(Struct, frozen=True, kw_only=True):
    """`weights`: of all arms; those that take no part keep theirs. `shares`: of the arms that do. `means`: how much better each is than
    the first of them. `best`: by thompson the probability of each to be the best. `winner`: by best_arm, if one was found.
    """

    rule: str
    weights: Mapping[str, float]
    shares: Mapping[str, float]
    means: Mapping[str, float]
    standard_errors: Mapping[str, float]
    units: Mapping[str, int]
    best: Mapping[str, float] | None = None
    winner: str | None = None
    seed: str | None = None


class NoProposal(Struct, frozen=True):
    """`reason`: a sentence."""

    reason: str


def propose_weights(facts: ExperimentFacts, results: Results) -> Proposal | NoProposal:
    adaptive = facts.adaptive
    if adaptive is None:
        return NoProposal("The experiment has no adaptive rule.")
    arms = [arm for arm in sorted(facts.arms) if facts.enrols(arm)]
    if len(arms) < 2:
        return NoProposal("Fewer than two arms take new units.")
    strata = results.get(facts.primary, ())
    least = units_needed(facts.plan(facts.primary, facts.analysis.alpha).kind, equal_split=False)
    short = _find_short_arm(strata, facts.version, arms, least)
    if short is not None:
        return NoProposal(short)
    better = 1.0 if facts.direction(facts.primary) == "max" else -1.0
    fitted = fit_effects(strata, arms, least)
    if fitted is None:
        return NoProposal("No version of the weights has enough units of two arms.")
    fitted = _times(fitted, better)
    best: list[float] | None = None
    winner: str | None = None
    seed: str | None = None
    if adaptive.rule == "thompson":
        seed = f"{facts.id}:{facts.version}"
        shares = best = probabilities_of_best(fitted, seed)
    else:
        winner = _find_winner(facts, strata, fitted)
        shares = [float(arm == winner) for arm in arms] if winner is not None else track_and_stop_shares(fitted)
    floor = min(adaptive.minimum_share, 1 / len(arms))
    floored = _round([floor + (1 - len(arms) * floor) * share for share in shares])
    total = sum(facts.arms[arm] for arm in arms)
    now = {arm: facts.arms[arm] / total for arm in arms}
    if max(abs(share - now[arm]) for arm, share in zip(arms, floored, strict=True)) < MIN_CHANGE:
        return NoProposal("The shares are as the rule wants them.")
    return Proposal(
        rule=adaptive.rule,
        weights={**facts.arms, **{arm: share * total for arm, share in zip(arms, floored, strict=True)}},
        shares=dict(zip(arms, floored, strict=True)),
        means=dict(zip(arms, fitted.effects, strict=True)),
        standard_errors={arm: math.sqrt(fitted.covariance[at][at]) for at, arm in enumerate(arms)},
        units=dict(zip(arms, fitted.units, strict=True)),
        best=None if best is None else dict(zip(arms, best, strict=True)),
        winner=winner,
        seed=seed,
    )


def probabilities_of_best(fitted: ArmEffects, seed: str) -> list[float]:
    """Of each arm, by the normal posterior without a prior. The same for the same seed."""
    size = len(fitted.arms)
    if size == 2:
        deviation = math.sqrt(fitted.covariance[1][1])
        if deviation == 0:
            return [0.5, 0.5] if fitted.effects[1] == 0 else [float(fitted.effects[1] < 0), float(fitted.effects[1] > 0)]
        second = _NORMAL.cdf(fitted.effects[1] / deviation)
        return [1 - second, second]
    lower = _cholesky([row[1:] for row in fitted.covariance[1:]])
    source = random.Random(seed)
    draws = _DRAWS if size <= _MANY_ARMS else _DRAWS_OF_MANY
    wins = [0] * size
    for _ in range(draws):
        normals = [source.gauss(0, 1) for _ in lower]
        drawn = [0.0, *(fitted.effects[at + 1] + sum(map(_times_each, row, normals)) for at, row in enumerate(lower))]
        wins[max(range(size), key=drawn.__getitem__)] += 1
    return [count / draws for count in wins]


def track_and_stop_shares(fitted: ArmEffects) -> list[float]:
    """For which the difference of the best arm to each other one becomes certain soonest, all at the same time.

    With w the best arm's share and x that of another: (gap)^2 / (var / w + its var / x) is the same for all of them, and the sum over them
    of x^2 var / (w^2 its var) is 1. A gap counts as one standard error at least: of those closer nothing is known yet.
    """
    size = len(fitted.arms)
    best = max(range(size), key=fitted.effects.__getitem__)
    if min(fitted.variances) <= 0:
        return [1 / size] * size
    others = [at for at in range(size) if at != best]
    gaps = {at: max(fitted.effects[best] - fitted.effects[at], math.sqrt(variance_between(fitted, best, at)), 1e-12) ** 2 for at in others}
    own = fitted.variances[best]

    def shares_at(level: float) -> dict[int, float]:
        """Of the others, with that of the best as 1."""
        return {at: fitted.variances[at] / (gaps[at] / level - own) for at in others}

    low, high = 0.0, min(gaps.values()) / own
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if sum(x * x * own / fitted.variances[at] for at, x in shares_at(middle).items()) > 1:
            high = middle
        else:
            low = middle
    found = shares_at(low) if low > 0 else dict.fromkeys(others, 1.0)
    total = 1 + sum(found.values())
    return [(1.0 if at == best else found[at]) / total for at in range(size)]


def _find_short_arm(strata: Sequence[Stratum], version: int, arms: Sequence[str], least: int) -> str | None:
    """Why the version in force is not used up yet. Without that, versions would follow each other before any of them can be read."""
    for arm in arms:
        units = sum(stratum.arms[arm].n for stratum in strata if stratum.version == version and arm in stratum.arms)
        if units < least:
            return f"Version {version} has {units} complete units of {arm}, of at least {least} of each arm before the next version."
    return None


def _find_winner(facts: ExperimentFacts, strata: Sequence[Stratum], fitted: ArmEffects) -> str | None:
    """The arm whose difference to each other one is clear of 0. No other than the best is found with probability 1 - alpha, ever: for
    that it would have to be clear of the best, so each of the others gets a part of alpha, as one side of its sequence.
    """
    best = fitted.arms[max(range(len(fitted.arms)), key=fitted.effects.__getitem__)]
    plan = facts.plan(facts.primary, min(0.5, 2 * facts.analysis.alpha / len(fitted.arms)))
    others = [arm for arm in fitted.arms if arm != best]
    return best if all(compare(strata, other, best, plan).verdict == "better" for other in others) else None


def _round(shares: Sequence[float]) -> list[float]:
    """To six digits that add up to 1: each upwards, so that none falls below its floor, and the largest gets the rest."""
    largest = max(range(len(shares)), key=shares.__getitem__)
    rounded = [math.ceil(share * _DIGITS - 1e-6) / _DIGITS for share in shares]
    rounded[largest] = round(1 - sum(each for at, each in enumerate(rounded) if at != largest), 6)
    return rounded


def _times(fitted: ArmEffects, factor: float) -> ArmEffects:
    return ArmEffects(fitted.arms, [factor * each for each in fitted.effects], fitted.covariance, fitted.variances, fitted.units)


def _times_each(one: float, two: float) -> float:
    return one * two


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Lower triangular; a row that others determine becomes 0."""
    lower: list[list[float]] = []
    for at, row in enumerate(matrix):
        new: list[float] = []
        for column in range(at):
            left = row[column] - sum(map(_times_each, new, lower[column]))
            new.append(left / lower[column][column] if lower[column][column] else 0.0)
        rest = row[at] - sum(each * each for each in new)
        new.append(math.sqrt(rest) if rest > 0 else 0.0)
        lower.append(new)
    return lower
