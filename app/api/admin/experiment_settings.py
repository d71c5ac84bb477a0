"""The settings of an experiment, as [models.NAME.experiment] and [functions.NAME.experiment] of a configuration file."""

from typing import Annotated

from msgspec import Meta, Struct

from app.domain import ExperimentStatus


class ExperimentSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: who is served by which arm."""

    arms: Annotated[dict[str, float], Meta(description="Weights of 0 or more by arm: models, or variants of the function.")]
    name: Annotated[str | None, Meta(description="Null: the name of the model or function.")] = None
    status: ExperimentStatus = "running"
    unit: Annotated[str, Meta(description="What is randomised: episode, user, team, or tag:NAME.")] = "episode"
    enrolment: Annotated[float, Meta(description="The share of units that take part; the others get the control.")] = 1.0
    control: Annotated[str | None, Meta(description="An arm; null: the default variant, or the first arm by name.")] = None
    salt: Annotated[str | None, Meta(description="Of the assignment; null: the name.")] = None
