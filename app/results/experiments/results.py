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
    """A confidence sequence, which holds at all looks together.

    An end of null means that it has no such end.
    """

    low: float | None
    high: float | None


class ArmUnits(Struct, frozen=True, kw_only=True):
    """The units of an arm.

    `share` is what its weight gives it now. `units` are assigned, and not excluded; of these, `open` ones
    still last. Units are `excluded` if one of their requests took no part. `served_by_other_share` is the
    share of inferences that another arm answered.
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
    """The check that arms have units as their weights say.

    If there is a `mismatch`, nothing may be concluded.
    """

    p: float
    mismatch: bool


class ArmValue(Struct, frozen=True, kw_only=True):
    """The value of a metric in an arm.

    `units` are complete ones that have a value, and `total` is over all of them, before the cap. `capped`
    counts units whose value the cap cut. `value` weighs versions by their units of all arms.
    """

    arm: str
    units: int
    value: float | None
    interval: Range | None
    total: float
    capped: int


class ArmComparison(Struct, frozen=True, kw_only=True):
    """An arm and the control in one metric.

    `difference` is arm less control, within versions, in the metric's unit. `p` is valid at any time, and
    `interval` holds at all looks, arms and metrics together. `lift` is relative to the control, and null
    while that is not known well enough. `variance_reduction` is due to what was known of units before the
    experiment. `units_left_out` are of versions with too few of them. In `more_days` the difference seen now
    would be certain 4 times out of 5; null: it is, or nobody knows.
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
    """The same over a part of the units.

    If `kind` is slice, they are those with this `value` of the tag `name`; if it is episode_kind, those of
    one kind by who chose the episode's id. Parts are not corrected for how many there are: they are ideas for
    another experiment, no conclusions.
    """

    kind: Literal["slice", "episode_kind"]
    name: str
    value: str
    arms: Sequence[ArmValue]
    comparisons: Sequence[ArmComparison]


class MetricResult(Struct, frozen=True, kw_only=True):
    """The results of a metric.

    `alpha` is that of each comparison, after the split over arms and metrics. If `optimize` is null, neither
    more nor less is better. `sample_ratio` is of units with a value; a mismatch here alone means that units
    of an arm lose theirs.
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
    """The results of an experiment. Read `warnings` first.

    `units_per_day` are new ones, of the last seven full days. `conclusion` is what the primary metric says.
    """

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
