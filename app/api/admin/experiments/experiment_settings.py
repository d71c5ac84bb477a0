"""The settings of an experiment, as [models.NAME.experiment] and [functions.NAME.experiment] of a configuration file."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from app.domain.experiments import ExperimentStatus


class RampStepSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A step of a ramp: some hours after the start, another share of units takes part."""

    after_hours: float
    enrolment: float


class AnalysisSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings by which an experiment is analyzed. Its start freezes all of them."""

    metrics: Annotated[
        list[str], Meta(description="Built-in outcomes and declared metrics, the first is the primary one. Empty: the built-in ones.")
    ] = []
    alpha: Annotated[float, Meta(description="The chance that results say something false at any time.")] = 0.05
    planned_units: Annotated[int, Meta(description="Units of control and arm together for which intervals are narrowest.")] = 10_000
    caps: Annotated[dict[str, float], Meta(description="By metric, the most that the value of one unit counts.")] = {}
    slices: Annotated[list[str], Meta(description="Names of tags by which results are shown, too.")] = []
    window_minutes: Annotated[int, Meta(description="So long after its first inference a unit is complete.")] = 60
    feedback_hours: Annotated[int, Meta(description="Feedback counts until so long after a unit's first inference.")] = 24
    guardrails: Annotated[dict[str, float], Meta(description="By metric, how much worse than the control an arm may be.")] = {}
    minimum_units: Annotated[int, Meta(description="Units of the arm and of the control without which it is not promoted.")] = 500
    minimum_days: Annotated[float, Meta(description="Days since the start before which no arm is promoted.")] = 7.0


class AdaptiveSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights that follow the primary metric."""

    rule: Literal["thompson", "best_arm"]
    every_minutes: Annotated[int, Meta(description="How often weights may change.")] = 60
    minimum_share: Annotated[float, Meta(description="No arm's share goes below this.")] = 0.05


class ExperimentSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: who is served by which arm."""

    arms: Annotated[dict[str, float], Meta(description="Weights of 0 or more by arm: models, or variants of the function.")]
    name: Annotated[str | None, Meta(description="Null: the name of the model or function.")] = None
    status: ExperimentStatus = "running"
    unit: Annotated[str, Meta(description="What is randomised: episode, user, team, or tag:NAME.")] = "episode"
    enrolment: Annotated[float, Meta(description="The share of units that take part; the others get the control.")] = 1.0
    control: Annotated[str | None, Meta(description="An arm; null: the default variant, or the first arm by name.")] = None
    salt: Annotated[str | None, Meta(description="Of the assignment; null: a random one.")] = None
    ramp: Annotated[list[RampStepSettings], Meta(description="Later shares of units that take part, the earliest first.")] = []
    eligible: Annotated[dict[str, list[str]], Meta(description="By key, team or tag:NAME, the values that take part.")] = {}
    holdout: Annotated[float, Meta(description="The share of units that takes part in no experiment with a holdout.")] = 0.0
    layer: Annotated[str | None, Meta(description="Experiments of one layer share no unit.")] = None
    slots: Annotated[tuple[int, int] | None, Meta(description="Of its layer's 10,000: the first, and the one after the last.")] = None
    stopped: Annotated[list[str], Meta(description="Arms whose units get the control at once.")] = []
    winner: Annotated[str | None, Meta(description="The arm that serves once it has ended; null: the control.")] = None
    analysis: Annotated[AnalysisSettings, Meta(description="How it is read.")] = AnalysisSettings()
    adaptive: Annotated[AdaptiveSettings | None, Meta(description="Null: weights change by hand only.")] = None
