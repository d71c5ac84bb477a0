"""Validation of experiments: their arms, weights and units."""

from collections.abc import Collection

from app.domain import ExperimentConfig, Snapshot
from app.store.errors import BadConfiguration

_UNITS = ("episode", "user", "team")


def check_model_experiment(name: str, wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first error. The arms of a model's experiment are models, which have no experiment of their own."""
    experiment = wanted.models[name].experiment
    if experiment is None:
        return
    path = f"models.{name}.experiment"
    check_experiment(path, experiment, wanted.models, name if name in experiment.arms else None)
    for arm in experiment.arms:
        if arm != name and wanted.models[arm].experiment is not None:
            raise BadConfiguration(f"{path}.arms: the model {arm!r} has an experiment of its own, and one request takes part in one.")


def check_experiment(path: str, experiment: ExperimentConfig, choices: Collection[str], default: str | None) -> None:
    """Raises BadConfiguration. `choices`: what an arm may name. `default`: the control, unless the experiment names one."""
    arms = experiment.arms
    for arm, weight in arms.items():
        if arm not in choices:
            raise BadConfiguration(f"{path}.arms: there is no {arm!r:.100}. It may be one of: {', '.join(sorted(choices)[:50])}.")
        if not 0 <= weight < float("inf"):
            raise BadConfiguration(f"{path}.arms.{arm}: a weight is a number of 0 or more, not {weight:g}.")
    if not any(arms.values()):
        raise BadConfiguration(f"{path}.arms: at least one weight must be more than 0.")
    control = default if experiment.control is None else experiment.control
    if control is not None and control not in arms:
        raise BadConfiguration(f"{path}.control: {control!r:.100} is not one of its arms: {', '.join(sorted(arms))}.")
    if not 0 <= experiment.enrolment <= 1:
        raise BadConfiguration(f"{path}.enrolment is the share of units that take part, from 0 to 1, not {experiment.enrolment:g}.")
    if experiment.unit not in _UNITS and not (experiment.unit.startswith("tag:") and len(experiment.unit) > len("tag:")):
        raise BadConfiguration(f"{path}.unit: {experiment.unit!r:.100} is not one of: {', '.join(_UNITS)}, tag:NAME.")
