"""Adaptive weights: within their bounds, from what is known of each version, and better than an equal split."""

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.experiments import AnalysisConfig
from app.results.guard.adaptive import NoProposal, Proposal, propose_weights
from app.results.guard.facts import ExperimentFacts
from app.results.statistics.compare import compare
from app.results.statistics.plan import Plan
from app.results.statistics.sums import Stratum, UnitSums
from tests.support.simulated.simulated_experiment import SimulatedExperiment, adaptive, facts_of

STARS, WASTE, HELPFUL = (AnalysisConfig(metrics=(name,)) for name in ("stars", "waste", "helpful"))


def sums(n: int, mean: float, deviation: float = 1.0) -> UnitSums:
    return UnitSums(n, n * mean, n * mean**2 + (n - 1) * deviation**2)


def one_version(arms: Mapping[str, UnitSums], metric: str = "stars") -> dict[str, list[Stratum]]:
    return {metric: [Stratum(1, "minted", {arm: 1 / len(arms) for arm in arms}, arms)]}


def two_arms(a: UnitSums, b: UnitSums) -> dict[str, list[Stratum]]:
    return one_version({"a": a, "b": b})


def facts(rule: str = "thompson", floor: float = 0.05, **changes: Any) -> ExperimentFacts:
    return facts_of(**{"analysis": STARS, "adaptive": adaptive(rule, floor), **changes})


def proposal(facts: ExperimentFacts, results: dict[str, list[Stratum]]) -> Proposal:
    proposed = propose_weights(facts, results, 0)
    assert isinstance(proposed, Proposal), proposed
    return proposed


means = st.floats(-10, 10)
several = st.lists(st.tuples(st.integers(100, 5_000), means, st.floats(0.01, 5)), min_size=2, max_size=6)
six_weights = st.lists(st.floats(0.01, 100), min_size=6, max_size=6)


@given(several, st.sampled_from(["thompson", "best_arm"]), st.floats(0.001, 1), six_weights)
def test_shares_add_up_and_none_is_below_its_minimum(drawn: list[tuple[int, float, float]], rule: str, part: float, weights: list[float]):
    arms = {name: sums(*each) for name, each in zip("abcdef", drawn, strict=False)}
    least = max(0.001, part / len(arms))
    current = {**dict(zip(arms, weights, strict=False)), "gone": 0.0}
    proposed = propose_weights(facts(rule, least, arms=current), one_version(arms), 0)
    if isinstance(proposed, NoProposal):
        return
    assert math.fsum(proposed.shares.values()) == pytest.approx(1, abs=1e-9)
    assert min(proposed.shares.values()) >= min(least, 1 / len(arms)) - 1e-5
    assert proposed.weights["gone"] == 0, "an arm that takes no part is never brought back"
    assert math.fsum(proposed.weights.values()) == pytest.approx(math.fsum(current.values()))


def test_share_is_the_probability_of_being_best():
    # The difference is 0.05, its standard error 0.05: one deviation.
    found = {"a": sums(800, 0.05), "b": sums(800, 0.0)}
    proposed = proposal(facts(floor=0.001), one_version(found))
    assert proposed.best is not None and proposed.best["a"] == pytest.approx(0.8413, abs=2e-3)
    assert proposed.shares["a"] == pytest.approx(0.001 + 0.998 * proposed.best["a"], abs=1e-3)
    less_is_better = proposal(facts(floor=0.001, analysis=WASTE), one_version(found, "waste"))
    assert less_is_better.best is not None and less_is_better.best["a"] == pytest.approx(0.1587, abs=2e-3)


@given(st.floats(-0.2, 0.2))
def test_shares_are_of_few_values(better: float):
    """A hundred splits are then enough to compute the results of thousands of versions."""
    proposed = propose_weights(facts(floor=0.05), one_version({"a": sums(800, better), "b": sums(800, 0.0)}), 0)
    if isinstance(proposed, Proposal):
        assert all(share == pytest.approx(round(100 * share) / 100, abs=1e-9) for share in proposed.shares.values())


def test_best_arm_gets_all_but_the_minimum_once_it_is_certain():
    proposed = proposal(facts("best_arm"), two_arms(sums(5_000, 1.0), sums(5_000, 0.0)))
    assert (proposed.winner, proposed.shares) == ("a", {"a": 0.95, "b": 0.05})
    early = proposal(facts("best_arm", arms={"a": 3.0, "b": 1.0}), two_arms(sums(500, 0.05), sums(500, 0.0)))
    assert early.winner is None and early.shares["a"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "found", "last_units", "reason"),
    [
        ({"adaptive": None}, {}, 0, "no adaptive rule"),
        ({"arms": {"a": 0.0, "b": 1.0}}, {}, 0, "Fewer than two arms"),
        ({"stopped": ("a",)}, {}, 0, "Fewer than two arms"),
        ({}, {}, 0, "a has 0 complete units, of at least 100 before the first change."),
        ({}, two_arms(sums(99, 0), sums(500, 0)), 0, "a has 99 complete units, of at least 100"),
        ({}, two_arms(sums(500, 1), sums(500, 0)), 901, "99 units are complete since the last change, of at least 100."),
        ({}, two_arms(sums(500, 1), sums(500, 0)), 5_000, "0 units are complete since the last change"),  # after an erasure
        ({}, two_arms(sums(500, 0), sums(500, 0)), 0, "The shares are as the rule wants them."),
    ],
    ids=str,
)
def test_nothing_is_proposed_without_a_reason_to(changes: dict[str, Any], found: dict[str, list[Stratum]], last_units: int, reason: str):
    proposed = propose_weights(facts(**changes), found, last_units)
    assert isinstance(proposed, NoProposal) and reason in proposed.reason


def adapt(seed: int, rule: str, effect: float, rounds: int, drift: float) -> tuple[float, bool]:
    """The share of units that got the better arm, and whether the interval held the effect at every look."""
    total = rounds * 1_000

    def draw(source: random.Random, arm: str, at: int) -> Mapping[str, float]:
        rate = 0.4 + drift * math.sin(2 * math.pi * at / total) + (effect if arm == "a" else 0.0)
        return {"helpful": float(source.random() < rate)}

    running = SimulatedExperiment(facts(rule, analysis=HELPFUL), draw, seed)
    better, covered, last_units = 0, True, 0
    for _ in range(rounds):
        better += running.run(1_000).count("a")
        compared = compare(running.results["helpful"], "b", "a", Plan("boolean", "max"))
        if compared.interval is not None:
            covered = covered and compared.interval.contains(effect)
        proposed = propose_weights(running.facts, running.results, last_units)
        if isinstance(proposed, Proposal):
            last_units = proposed.units
            running.change(arms=proposed.weights)
    return better / total, covered


@pytest.mark.parametrize(("rule", "least"), [("thompson", 0.8), ("best_arm", 0.55)])
def test_better_arm_gets_more_units_than_by_an_equal_split_and_its_interval_still_covers(rule: str, least: float):
    """The base rate drifts while the weights follow it: on pooled means this fails. tests/long looks at many more."""
    runs = [adapt(seed, rule, 0.08, 10, 0.1) for seed in range(12)]
    assert sum(share for share, _ in runs) / len(runs) > least
    assert sum(not covered for _, covered in runs) <= 3
