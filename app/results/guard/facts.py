"""The facts about a running experiment by which decisions are made, beside its results."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.domain.experiments import BOOLEAN_OUTCOMES, BUILT_IN_OUTCOMES, AdaptiveConfig, AnalysisConfig, MetricConfig
from app.results.statistics.burn_in import MetricKind
from app.results.statistics.plan import Plan
from app.results.statistics.sums import Stratum

# Of each metric of the experiment, complete units only.
Results: TypeAlias = Mapping[str, Sequence[Stratum]]
Direction: TypeAlias = Literal["max", "min"]


class ExperimentFacts(Struct, frozen=True, kw_only=True):
    """The facts about one running experiment."""

    id: str
    name: str
    unit: str
    control: str
    arms: Mapping[str, float]  # their weights now
    stopped: Sequence[str]  # arms whose units get the control
    analysis: AnalysisConfig
    declared: Mapping[str, MetricConfig]  # the configuration's metrics
    version: int  # in force now
    adaptive: AdaptiveConfig | None = None
    is_settled: bool = True  # the version has these weights: no change of them is on its way

    @property
    def metrics(self) -> Sequence[str]:
        return self.analysis.metrics or BUILT_IN_OUTCOMES

    @property
    def primary(self) -> str:
        return self.metrics[0]

    @property
    def others(self) -> list[str]:
        """The arms beside the control."""
        return [arm for arm in sorted(self.arms) if arm != self.control]

    def with_arms(self, arms: Mapping[str, float], stopped: Sequence[str]) -> "ExperimentFacts":
        return replace(self, arms=arms, stopped=stopped)

    def enrols(self, arm: str) -> bool:
        """Returns whether the arm gets new units that it serves."""
        return self.arms[arm] > 0 and arm not in self.stopped

    def direction(self, metric: str) -> Direction:
        optimize = self.declared[metric].optimize if metric in self.declared else "min"
        return optimize or "min"  # without one it is no guardrail, and not the primary metric

    def plan(self, metric: str, alpha: float) -> Plan:
        return Plan(
            kind=self._kind(metric),
            optimize=self.direction(metric),
            alpha=alpha,
            planned_units=self.analysis.planned_units,
            cap=self.analysis.caps.get(metric),
            complete=metric in BUILT_IN_OUTCOMES,
        )

    def _kind(self, metric: str) -> MetricKind:
        if metric in self.declared:
            return "boolean" if self.declared[metric].kind == "boolean" else "float"
        return "boolean" if metric in BOOLEAN_OUTCOMES else "heavy_tailed"
