"""Guardrails, adaptive weights and their results over many simulated experiments: false stops, regret, and intervals that still cover.

The bounds are those of reference experiments: at most so many of so many runs that with 99 % certainty the rate is at most 0.06.
"""

import math
import random
from collections.abc import Mapping

import pytest

from app.domain.experiments import AnalysisConfig
from app.results.guard.adaptive import Proposal, propose_weights
from app.results.guard.guardrails import find_stops
from app.results.statistics.compare import compare
from app.results.statistics.plan import Plan
from tests.support.simulated.simulated_experiment import SimulatedExperiment, adaptive, facts_of

RUNS = 500
MOST_OF_500 = 17
UNITS = 5_000
# What an arm may be worse by, and is: the worst that counts as harmless.
MARGINS = {"error": 0.01, "helpful": 0.02, "cost": 0.2}


def harmless(metrics: tuple[str, ...], source: random.Random, arm: str, at: int) -> Mapping[str, float]:
    """The base rate doubles meanwhile, and costs have a heavy tail."""
    drift, worse = 1 + at / UNITS, arm == "a"
    drawn = {
        "error": float(source.random() < 0.02 * drift + MARGINS["error"] * worse),
        "helpful": float(source.random() < 0.3 * drift - MARGINS["helpful"] * worse),
        "cost": min(8.0, source.lognormvariate(0.0, 1.0)) * drift + MARGINS["cost"] * worse,
    }
    return {metric: drawn[metric] for metric in metrics}


@pytest.mark.parametrize("metrics", [("error",), ("helpful",), ("error", "helpful", "cost")], ids=",".join)
def test_harmless_arms_are_stopped_in_at_most_the_promised_share_of_experiments(metrics: tuple[str, ...]):
    """A ramp from 10 to 50 %, and a look at every hundred units."""
    analysis = AnalysisConfig(metrics=metrics, guardrails={metric: MARGINS[metric] for metric in metrics}, caps={"cost": 16.2})
    stopped = 0
    for seed in range(RUNS):
        start = facts_of(analysis=analysis, arms={"a": 0.1, "b": 0.9})
        running = SimulatedExperiment(start, lambda source, arm, at: harmless(metrics, source, arm, at), seed)
        while running.units < UNITS:
            if running.units == UNITS * 2 // 5:
                running.change(arms={"a": 0.5, "b": 0.5})
            running.run(100)
            if find_stops(running.facts, running.results, {}):
                stopped += 1
                break
    assert stopped <= MOST_OF_500, "harmless arms were stopped"


EFFECT, ROUNDS, A_ROUND = 0.06, 20, 500
HELPFUL = AnalysisConfig(metrics=("helpful",))


def adapt(rule: str, effect: float, seed: int) -> tuple[float, bool, bool]:
    """The share of the better arm; whether the interval held the effect at every look; whether a winner was found."""

    def draw(source: random.Random, arm: str, at: int) -> Mapping[str, float]:
        base = 0.4 + 0.1 * math.sin(2 * math.pi * at / (ROUNDS * A_ROUND))
        return {"helpful": float(source.random() < base + (effect if arm == "a" else 0.0))}

    running = SimulatedExperiment(facts_of(analysis=HELPFUL, adaptive=adaptive(rule)), draw, seed)
    better, covered, won, last_units = 0, True, False, 0
    for _ in range(ROUNDS):
        better += running.run(A_ROUND).count("a")
        compared = compare(running.results["helpful"], "b", "a", Plan("boolean", "max"))
        covered = covered and (compared.interval is None or compared.interval.contains(effect))
        proposed = propose_weights(running.facts, running.results, last_units)
        if isinstance(proposed, Proposal):
            last_units = proposed.units
            won = won or proposed.winner is not None
            running.change(arms=proposed.weights)
    return better / running.units, covered, won


@pytest.mark.parametrize(("rule", "least_share"), [("thompson", 0.8), ("best_arm", 0.55)])
def test_regret_is_below_that_of_an_equal_split_and_intervals_still_cover(rule: str, least_share: float):
    runs = [adapt(rule, EFFECT, seed) for seed in range(RUNS)]
    share = sum(run[0] for run in runs) / RUNS
    missed = sum(not run[1] for run in runs)
    assert share > least_share, "of units got the better arm; an equal split gives it 0.5"
    assert missed <= MOST_OF_500, "intervals missed the effect"


@pytest.mark.parametrize("rule", ["thompson", "best_arm"])
def test_equal_arms_are_called_different_in_at_most_the_promised_share_of_experiments(rule: str):
    runs = [adapt(rule, 0.0, seed) for seed in range(RUNS)]
    missed, won = sum(not run[1] for run in runs), sum(run[2] for run in runs)
    assert max(missed, won) <= MOST_OF_500, "pairs of equal arms were called different, or had a winner"
