"""Experiments in memory: units that arrive one by one, are assigned by the weights in force, and are summed as the writer sums them."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.domain.experiments import AdaptiveConfig, AnalysisConfig, MetricConfig
from app.results.guard.facts import ExperimentFacts
from app.results.statistics.sums import Stratum, UnitSums


def facts_of(**changes: Any) -> ExperimentFacts:
    """Returns an experiment of two arms, a and b, of which b is the control."""
    declared = {
        "helpful": MetricConfig(kind="boolean", level="inference", optimize="max"),
        "stars": MetricConfig(kind="float", level="inference", optimize="max"),
        "waste": MetricConfig(kind="float", level="inference", optimize="min"),
    }
    analysis = AnalysisConfig(metrics=("error", "helpful", "cost"), guardrails={"error": 0.01})
    base = ExperimentFacts(
        id="0198",
        name="size",
        unit="episode",
        control="b",
        arms={"a": 1.0, "b": 1.0},
        stopped=(),
        analysis=analysis,
        declared=declared,
        version=1,
    )
    return replace(base, **changes)


class SimulatedExperiment:
    """An experiment whose units are drawn at random.

    `draw` gives a unit's value of each metric, by the source of randomness, its arm, and how many units came before it.
    """

    def __init__(self, facts: ExperimentFacts, draw: Callable[[random.Random, str, int], Mapping[str, float]], seed: int) -> None:
        self.facts = facts
        self.units = 0
        self._draw = draw
        self._source = random.Random(seed)
        self._sums: dict[tuple[str, int], dict[str, list[float]]] = {}
        self._shares: dict[int, dict[str, float]] = {}

    def run(self, units: int) -> list[str]:
        """Assigns so many units and sums their metrics; returns their arms."""
        arms = list(self.facts.arms)
        weights = [self.facts.arms[arm] for arm in arms]
        self._shares[self.facts.version] = {arm: weight / sum(weights) for arm, weight in zip(arms, weights, strict=True)}
        drawn = self._source.choices(arms, weights, k=units)
        for arm in drawn:
            for metric, value in self._draw(self._source, arm, self.units).items():
                sums = self._sums.setdefault((metric, self.facts.version), {}).setdefault(arm, [0, 0.0, 0.0, 0, 0])
                for at, each in enumerate((1, value, value * value, value == 0, value == 1)):
                    sums[at] += each
            self.units += 1
        return drawn

    def change(self, **changes: Any) -> None:
        """Makes a new version."""
        self.facts = replace(self.facts, version=self.facts.version + 1, **changes)

    @property
    def results(self) -> dict[str, Sequence[Stratum]]:
        found: dict[str, list[Stratum]] = {}
        for (metric, version), arms in sorted(self._sums.items()):
            sums = {arm: UnitSums(int(n), y, yy, int(zeros), int(ones)) for arm, (n, y, yy, zeros, ones) in arms.items()}
            found.setdefault(metric, []).append(Stratum(version, "minted", self._shares[version], sums))
        return dict(found)


def errors(rates: Mapping[str, float]) -> Callable[[random.Random, str, int], Mapping[str, float]]:
    return lambda source, arm, _: {"error": float(source.random() < rates[arm])}


def adaptive(rule: Any, minimum_share: float = 0.05) -> AdaptiveConfig:
    return AdaptiveConfig(rule=rule, minimum_share=minimum_share)
