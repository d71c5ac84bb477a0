"""Experiments: their arms and versions, what is assigned, and the metrics that compare arms."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

ExperimentStatus = Literal["draft", "running", "ended"]


class RampStep(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A step of a ramp.

    From `after_hours` after the experiment's start on, the share `enrolment` of units takes part.
    """

    after_hours: float
    enrolment: float


# What experiments can compare without any feedback. Of each less is better.
BuiltInOutcome = Literal["error", "schema_failure", "refusal", "latency", "time_to_first_token", "cost", "input_tokens", "output_tokens"]


BUILT_IN_OUTCOMES: tuple[BuiltInOutcome, ...] = get_args(BuiltInOutcome)


# Of these a unit has 1 if any of its inferences had one, else 0.
BOOLEAN_OUTCOMES: tuple[BuiltInOutcome, ...] = ("error", "schema_failure", "refusal")


class AnalysisConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """How an experiment is read. The start freezes all of it, because results hold only if it was chosen without having seen them.

    `metrics`: of BUILT_IN_OUTCOMES, and declared ones of kind boolean or float; the first is the primary one. Empty: BUILT_IN_OUTCOMES.
    `alpha`: the chance that any of them says something false at any time. `planned_units`: of control and arm together, for which
    intervals are narrowest. `caps`: a unit's value counts as at most this much, by metric. `slices`: names of tags by which results are
    shown, too. `window_minutes`: after its first inference a unit is complete. `feedback_hours`: feedback counts until so long after that
    inference. `guardrails`: by metric and in its own unit, how much worse than the control an arm may be before it is stopped.
    `minimum_units`: without so many in each of both, no arm is promoted, nor before `minimum_days` since the start: a full week or more, as
    days differ.
    """

    metrics: tuple[str, ...] = ()
    alpha: float = 0.05
    planned_units: int = 10_000
    caps: Mapping[str, float] = {}
    slices: tuple[str, ...] = ()
    window_minutes: int = 60
    feedback_hours: int = 24
    guardrails: Mapping[str, float] = {}
    minimum_units: int = 500
    minimum_days: float = 7.0


class AdaptiveConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Weights that follow the primary metric: every `every_minutes` a version with other ones, none with a share below `minimum_share`.

    thompson: an arm's share is the chance that it is the best. best_arm: shares that find the best arm soonest.
    """

    rule: Literal["thompson", "best_arm"]
    every_minutes: int = 60
    minimum_share: float = 0.05


class ExperimentConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The section `experiment` of a function, whose arms are variants, or of a model."""

    # Weights of 0 or more, not all 0, by a variant of the function; by another model, by the model's own name (all of its targets), or by
    # "provider/model" of one of its targets. They are absolute, so that a change of one moves units only to or from that arm.
    arms: Mapping[str, float]
    name: str | None = None  # None: the function's or model's name
    status: ExperimentStatus = "running"
    unit: str = "episode"  # what is randomised: episode, user, team, or tag:NAME
    enrolment: float = 1.0  # the share of units that take part; the others get the control
    control: str | None = None  # None: the function's default variant, the model itself, or the first of `arms` by name
    salt: str | None = None  # None: a random one
    ramp: tuple[RampStep, ...] = ()  # later shares, the earliest first
    eligible: Mapping[str, tuple[str, ...]] = {}  # by key, team or tag:NAME, the values that take part
    holdout: float = 0.0  # the share of units kept out of this and every other experiment with a holdout
    layer: str | None = None  # experiments of one layer share no unit
    slots: tuple[int, int] | None = None  # the experiment's own in its layer, from the first up to and without the last of 10,000
    stopped: tuple[str, ...] = ()  # arms whose units get the control at once
    winner: str | None = None  # the arm that serves once the experiment has ended; None: the control
    analysis: AnalysisConfig = AnalysisConfig()
    adaptive: AdaptiveConfig | None = None  # None: weights change by hand only

    def control_arm(self, default: str | None) -> str:
        """The arm of the control. `default` is the function's default variant, or the model's own name."""
        if self.control is not None:
            return self.control
        return default if default is not None and default in self.arms else min(self.arms)


# A version of an experiment takes effect at least so long after it was committed. A unit that began at a time takes part only by a snapshot
# that was the newest at that time less the lead and the tolerated difference of clocks: then no later version can be in force at that time.
# Longer than workers need to learn of a change. A shorter one needs all processes stopped.
EXPERIMENT_LEAD_MS = 10_000


EXPERIMENT_CLOCK_TOLERANCE_MS = 2_000


class ExperimentVersion(Struct, frozen=True):
    """The weights and the enrolment of a running experiment from `effective_ms` on, in Unix time by Postgres's clock."""

    number: int
    effective_ms: int
    arms: Mapping[str, float]
    enrolment: float


class Experiment(Struct, frozen=True):
    """A running experiment: what its start has frozen, and all versions.

    `holdout`, `layer`, `slots` and `eligible` are those of ExperimentConfig.
    """

    name: str
    salt: str
    unit: str
    control: str
    versions: tuple[ExperimentVersion, ...]  # at least one, the earliest first
    holdout: float = 0.0
    layer: str | None = None
    slots: tuple[int, int] | None = None
    eligible: Mapping[str, tuple[str, ...]] = {}


# Why a unit takes no part. pinned: the caller named the arm. ineligible: see ExperimentConfig.eligible. no_unit: the request names no user,
# or lacks the tag. holdout, layer, share: see `holdout`, `slots` and `enrolment`. before: the episode began before the experiment.
# late: this process may lack the version by which another one assigns it. future: the episode's id lies in the future.
NotEnrolled = Literal["pinned", "ineligible", "no_unit", "holdout", "layer", "share", "before", "late", "future"]


# minted: by a gateway with the same secret key, for this team. caller_uuid7: a UUIDv7 from anywhere else. text: any other name.
EpisodeKind = Literal["minted", "caller_uuid7", "text"]


class Assignment(Struct, frozen=True, array_like=True):
    """An arm of an experiment, as a request was assigned to it."""

    experiment: str
    version: int
    arm: str
    probability: float  # of the arm, among units that take part; 0 for a unit that is left out
    not_enrolled: NotEnrolled | None = None  # None: the unit takes part, and counts in the results
    unit: str | None = None  # a hash of what was randomised, with the experiment's salt; None: there is none
    episode_kind: EpisodeKind | None = None  # results of units that a caller could choose are kept apart


MetricKind = Literal["boolean", "float", "comment", "demonstration"]


MetricLevel = Literal["inference", "episode"]


class MetricConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Feedback that callers may send on an inference or an episode: the section `[metrics.NAME]`."""

    kind: MetricKind
    level: MetricLevel
    optimize: Literal["max", "min"] | None = None  # whether more of it is better; None: neither, as of every comment and demonstration
    description: str | None = None


# Every gateway has these. A comment may also be of an episode.
BUILT_IN_METRICS: Mapping[str, MetricConfig] = {
    "comment": MetricConfig(kind="comment", level="inference", description="A text about an inference or an episode."),
    "demonstration": MetricConfig(kind="demonstration", level="inference", description="What the response should have been."),
}
