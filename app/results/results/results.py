"""Results of an experiment, as they are read at any time: by arm and metric, with what may be concluded from them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from app.domain.experiments import ExperimentStatus
from app.results.statistics.burn_in import MetricKind
from app.results.statistics.compare import Verdict

MetricUnit = Literal["share of units", "seconds", "US dollars", "tokens", "value"]


class Range(Struct, frozen=True):
    """A confidence sequence: it holds at all looks together. Null: it has no such end."""

    low: float | None
    high: float | None


class ArmUnits(Struct, frozen=True, kw_only=True):
    """Units of an arm. `share`: that its weight has now. `units`: assigned, and not excluded; of these, `open` ones still last.

    `excluded`: one of their requests took no part. `served_by_other_share`: of inferences, those that another arm answered.
    """

    arm: str
    share: float
    units: int
    open: int
    measured: int
    complete: int
    excluded: int
    inferences: int
    inferences_per_episode: float | None
    served_by_other_share: float | None


class SampleRatioCheck(Struct, frozen=True):
    """Whether arms have units as their weights say. `mismatch`: they do not, so nothing may be concluded."""

    p: float
    mismatch: bool


class ArmValue(Struct, frozen=True, kw_only=True):
    """The value of a metric in an arm. `units`: complete ones that have a value. `total`: over all of them, before the cap.

    `capped`: units whose value the cap cut. `value` weighs versions by their units of all arms.
    """

    arm: str
    units: int
    value: float | None
    interval: Range | None
    total: float
    capped: int


class ArmComparison(Struct, frozen=True, kw_only=True):
    """An arm and the control in one metric. `difference`: arm less control, within versions, in the metric's unit. `p`: valid at any time.

    `interval` holds at all looks, arms and metrics together. `lift`: relative to the control; null while that is not known well enough.
    `variance_reduction`: by what was known of units before the experiment. `units_left_out`: of versions with too few of them.
    `more_days`: until the difference seen now would be certain 4 times out of 5; null: it is, or nobody knows.
    """

    arm: str
    verdict: Verdict
    reason: str | None
    method: str | None
    difference: float | None
    interval: Range | None
    p: float
    lift: float | None
    lift_interval: Range | None
    variance_reduction: float
    units: int
    units_left_out: int
    more_units: int | None
    more_days: float | None
    conclusion: str


class Part(Struct, frozen=True, kw_only=True):
    """The same over a part of the units. `kind` slice: those with this `value` of the tag `name`; episode_kind: who chose the episode's id.

    Not corrected for how many parts there are: ideas for another experiment, no conclusions.
    """

    kind: Literal["slice", "episode_kind"]
    name: str
    value: str
    arms: Sequence[ArmValue]
    comparisons: Sequence[ArmComparison]


class MetricResult(Struct, frozen=True, kw_only=True):
    """A metric. `alpha`: of each comparison, after the split over arms and metrics. `optimize` null: neither more nor less is better.

    `sample_ratio`: of units with a value; a mismatch here alone means that units of an arm lose theirs.
    """

    metric: str
    primary: bool
    kind: MetricKind
    unit: MetricUnit
    optimize: Literal["max", "min"] | None
    alpha: float
    cap: float | None
    arms: Sequence[ArmValue]
    comparisons: Sequence[ArmComparison]
    sample_ratio: SampleRatioCheck
    parts: Annotated[Sequence[Part], Meta(description="By kind of episode id, where there are several, and by the requested slice.")]


class ExperimentResults(Struct, frozen=True, kw_only=True):
    """`units_per_day`: new ones, of the last seven full days. `conclusion`: what the primary metric says. `warnings`: read them first."""

    id: str
    name: str
    status: ExperimentStatus
    unit: str
    control: str
    alpha: float
    planned_units: int
    started_at: str | None
    ended_at: str | None
    read_at: datetime
    window_minutes: int
    feedback_hours: int
    slices: Sequence[str]
    units_per_day: float
    conclusion: str
    warnings: Sequence[str]
    sample_ratio: SampleRatioCheck
    arms: Sequence[ArmUnits]
    metrics: Sequence[MetricResult]
