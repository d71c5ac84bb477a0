"""What decisions about a running experiment are made by, beside its results."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from app.analytics.statistics.sums import Stratum
from app.domain import BOOLEAN_OUTCOMES, BUILT_IN_OUTCOMES, AdaptiveConfig, AnalysisConfig

# Of each metric of the experiment, complete units only.
Results: TypeAlias = Mapping[str, Sequence[Stratum]]
Direction: TypeAlias = Literal["max", "min"]


class ExperimentFacts(Struct, frozen=True, kw_only=True):
    """`arms`: their weights now. `stopped`: arms whose units get the control. `directions`: of metrics, whether more or less is better.

    `version`: the newest, even if it is not in force yet.
    """

    id: str
    name: str
    unit: str
    control: str
    arms: Mapping[str, float]
    stopped: Sequence[str]
    analysis: AnalysisConfig
    directions: Mapping[str, Direction]
    version: int
    adaptive: AdaptiveConfig | None = None

    @property
    def primary(self) -> str:
        return (self.analysis.metrics or BUILT_IN_OUTCOMES)[0]

    @property
    def others(self) -> list[str]:
        """The arms beside the control."""
        return [arm for arm in sorted(self.arms) if arm != self.control]

    def enrols(self, arm: str) -> bool:
        """Whether the arm gets new units that it serves."""
        return self.arms[arm] > 0 and arm not in self.stopped

    def is_capped(self, metric: str) -> bool:
        return metric in self.analysis.caps

    def is_count(self, metric: str) -> bool:
        """Whether every unit has it or not, so that exact counts decide. Feedback is missing for some, and perhaps not for as many in each
        arm.
        """
        return metric in BOOLEAN_OUTCOMES
