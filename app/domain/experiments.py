"""Experiments: their arms and versions, what is assigned, and the metrics that compare arms."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

ExperimentStatus = Literal["draft", "running", "ended"]


class RampStep(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A step of a ramp: some hours after the start, another share of units takes part."""

    after_hours: float
    enrolment: float


# What experiments can compare without any feedback. Of each less is better.
BuiltInOutcome = Literal["error", "schema_failure", "refusal", "latency", "time_to_first_token", "cost", "input_tokens", "output_tokens"]


BUILT_IN_OUTCOMES: tuple[BuiltInOutcome, ...] = get_args(BuiltInOutcome)


# Of these a unit has 1 if any of its inferences had one, else 0.
BOOLEAN_OUTCOMES: tuple[BuiltInOutcome, ...] = ("error", "schema_failure", "refusal")


class AnalysisConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The settings by which an experiment is analyzed. Its start freezes all of them."""

    # All are frozen, because results hold only if they were chosen without having seen them.
    metrics: Annotated[
        tuple[str, ...], Meta(description="Built-in outcomes and declared metrics, the first is the primary one. Empty: the built-in ones.")
    ] = ()
    alpha: Annotated[float, Meta(description="The chance that results say something false at any time.")] = 0.05
    planned_units: Annotated[int, Meta(description="Units of control and arm together for which intervals are narrowest.")] = 10_000
    caps: Annotated[Mapping[str, float], Meta(description="By metric, the most that the value of one unit counts.")] = {}
    slices: Annotated[tuple[str, ...], Meta(description="Names of tags by which results are shown, too.")] = ()
    window_minutes: Annotated[int, Meta(description="So long after its first inference a unit is complete.")] = 60
    feedback_hours: Annotated[int, Meta(description="Feedback counts until so long after a unit's first inference.")] = 24
    guardrails: Annotated[
        Mapping[str, float],
        Meta(description="By metric and in its own unit, how much worse than the control an arm may be before it is stopped."),
    ] = {}
    minimum_units: Annotated[int, Meta(description="Units of the arm and of the control without which it is not promoted.")] = 500
    minimum_days: Annotated[float, Meta(description="Days since the start before which no arm is promoted.")] = 7.0  # as days differ


class AdaptiveConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Weights that follow the primary metric."""

    # thompson: an arm's share is the chance that it is the best; best_arm: shares that find the best arm soonest
    rule: Literal["thompson", "best_arm"]
    every_minutes: Annotated[int, Meta(description="How often weights may change.")] = 60
    minimum_share: Annotated[float, Meta(description="No arm's share goes below this.")] = 0.05


class ExperimentConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An experiment: who is served by which arm."""

    # Not all are 0. An arm of a model is another model, the model's own name (all of its targets), or "provider/model" of one of its
    # targets. They are absolute, so that a change of one moves units only to or from that arm.
    arms: Annotated[Mapping[str, float], Meta(description="Weights of 0 or more by arm: models, or variants of the function.")]
    name: Annotated[str | None, Meta(description="Null: the name of the model or function.")] = None
    status: ExperimentStatus = "running"
    unit: Annotated[str, Meta(description="What is randomised: episode, user, team, or tag:NAME.")] = "episode"
    enrolment: Annotated[float, Meta(description="The share of units that take part; the others get the control.")] = 1.0
    control: Annotated[  # of a model: the model itself
        str | None, Meta(description="An arm; null: the default variant, or the first arm by name.")
    ] = None
    salt: Annotated[str | None, Meta(description="Of the assignment; null: a random one.")] = None
    ramp: Annotated[tuple[RampStep, ...], Meta(description="Later shares of units that take part, the earliest first.")] = ()
    eligible: Annotated[Mapping[str, tuple[str, ...]], Meta(description="By key, team or tag:NAME, the values that take part.")] = {}
    holdout: Annotated[float, Meta(description="The share of units that takes part in no experiment with a holdout.")] = 0.0
    layer: Annotated[str | None, Meta(description="Experiments of one layer share no unit.")] = None
    slots: Annotated[tuple[int, int] | None, Meta(description="Of its layer's 10,000: the first, and the one after the last.")] = None
    stopped: Annotated[tuple[str, ...], Meta(description="Arms whose units get the control at once.")] = ()
    winner: Annotated[str | None, Meta(description="The arm that serves once it has ended; null: the control.")] = None
    analysis: Annotated[AnalysisConfig, Meta(description="How it is read.")] = AnalysisConfig()
    adaptive: Annotated[AdaptiveConfig | None, Meta(description="Null: weights change by hand only.")] = None

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

    kind: Annotated[MetricKind, Meta(description="What its values are.")]
    level: Annotated[MetricLevel, Meta(description="What it is about.")]
    # None also of every comment and demonstration
    optimize: Annotated[Literal["max", "min"] | None, Meta(description="Whether more of it is better; null: neither.")] = None
    description: Annotated[str | None, Meta(description="For people.")] = None


# Every gateway has these. A comment may also be of an episode.
BUILT_IN_METRICS: Mapping[str, MetricConfig] = {
    "comment": MetricConfig(kind="comment", level="inference", description="A text about an inference or an episode."),
    "demonstration": MetricConfig(kind="demonstration", level="inference", description="What the response should have been."),
}
