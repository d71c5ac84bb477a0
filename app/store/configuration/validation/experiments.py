"""Validation of experiments: their arms, weights and units, who takes part, and layers."""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from app.domain.errors import BadConfiguration
from app.domain.experiments import ExperimentConfig
from app.domain.routing import ModelConfig
from app.domain.snapshot import Snapshot
from app.store.configuration.validation.analysis import check_adaptive, check_analysis
from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS

LAYER_SLOTS = 10_000

_UNITS = ("episode", "user", "team")
_MAX_ARMS = 100
_MAX_RAMP_STEPS = 100
_MAX_RAMP_HOURS = 24 * 366
_MAX_VALUES = 1_000
# Between these the score of no arm can overflow, and the sum of all weights stays exact enough to tell their shares.
_MIN_WEIGHT, _MAX_WEIGHT = 1e-6, 1e6


def experiments_of(wanted: Snapshot) -> Iterator[tuple[str, str, ExperimentConfig]]:
    """Yields the path of each experiment, the function or model that has it, and the experiment."""
    for name, model in wanted.models.items():
        if model.experiment is not None:
            yield f"models.{name}.experiment", name, model.experiment
    for name, function in wanted.functions.items():
        if function.experiment is not None:
            yield f"functions.{name}.experiment", name, function.experiment


def model_arms(name: str, model: ModelConfig) -> set[str]:
    """The arms that a model has by itself: all of its targets, and each of them."""
    return {name, *(f"{target.provider}/{target.model}" for target in model.targets)} if model.targets else set()


def check_has_targets(path: str, model: str, models: Mapping[str, ModelConfig]) -> None:
    """Raises BadConfiguration for a model that only its experiment serves: what falls back to it or uses it takes part in none."""
    if not models[model].targets:
        raise BadConfiguration(
            f"{path}: the model {model!r:.100} has an experiment and no targets of its own, so here nothing would serve it."
            " Name one of its arms, or give it targets."
        )


def check_model_experiment(name: str, wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first error. The arms that are other models have no experiment of their own."""
    model = wanted.models[name]
    experiment = model.experiment
    if experiment is None:
        return
    path, own = f"models.{name}.experiment", model_arms(name, model)
    others = wanted.models.keys() - {name}
    check_experiment(path, experiment, own | others, name if name in experiment.arms else None)
    for arm in experiment.arms:
        if arm in own and arm in others:
            raise BadConfiguration(f"{path}.arms.{arm}: this is the name of a model and of one of its own targets. Rename the model.")
        if arm not in own and wanted.models[arm].experiment is not None:
            raise BadConfiguration(f"{path}.arms: the model {arm!r} has an experiment of its own, and one request takes part in one.")


def check_experiment(path: str, experiment: ExperimentConfig, choices: Collection[str], default: str | None) -> None:
    """Raises BadConfiguration. An arm may name one of `choices`. `default` is the control, unless the experiment names one."""
    arms = experiment.arms
    if not 1 <= len(arms) <= _MAX_ARMS:
        raise BadConfiguration(f"{path}.arms: an experiment has 1 to {_MAX_ARMS} arms, not {len(arms)}.")
    for arm, weight in arms.items():
        if arm not in choices:
            raise BadConfiguration(f"{path}.arms: there is no {arm!r:.100}. It may be one of: {', '.join(sorted(choices)[:50])}.")
        if weight != 0 and not _MIN_WEIGHT <= weight <= _MAX_WEIGHT:
            bounds = f"0, or {_MIN_WEIGHT:f} to {_MAX_WEIGHT:.0f}"
            raise BadConfiguration(f"{path}.arms.{arm}: a weight is a number of 0 or more ({bounds}), not {weight:g}.")
    if not any(arms.values()):
        raise BadConfiguration(f"{path}.arms: at least one weight must be more than 0.")
    control = experiment.control or default
    if control is not None and control not in arms:
        raise BadConfiguration(f"{path}.control: {control!r:.100} is not one of its arms: {', '.join(sorted(arms))}.")
    for name, value in (("name", experiment.name), ("salt", experiment.salt), ("layer", experiment.layer)):
        if value is not None and (not value or value != value.strip() or not value.isprintable() or len(value) > MAX_NAME_CHARACTERS):
            raise BadConfiguration(f"{path}.{name} has 1 to {MAX_NAME_CHARACTERS} printable characters and no space at its ends.")
    _check_share(f"{path}.enrolment", "the share of units that take part", experiment.enrolment)
    _check_share(f"{path}.holdout", "the share of units that take part in no experiment with a holdout", experiment.holdout)
    _check_unit(f"{path}.unit", experiment.unit)
    _check_ramp(path, experiment)
    _check_eligible(f"{path}.eligible", experiment)
    _check_slots(path, experiment)
    _check_ends(path, experiment, default)


def check_experiments_together(wanted: Snapshot) -> None:
    """Raises BadConfiguration for two experiments with one name, or that share units of a layer, and for metrics that do not exist."""
    paths: dict[str, str] = {}
    of_layers: dict[str, list[tuple[str, ExperimentConfig]]] = {}
    for path, owner, experiment in experiments_of(wanted):
        name = experiment.name or owner
        if name in paths:
            raise BadConfiguration(f"{path}.name: {paths[name]} has the name {name!r}, too.")
        paths[name] = path
        check_analysis(path, experiment, wanted.metrics)
        check_adaptive(path, experiment, wanted.metrics)
        if experiment.layer is not None and experiment.status != "ended":
            of_layers.setdefault(experiment.layer, []).append((path, experiment))
    for layer, members in of_layers.items():
        _check_layer(layer, members)


def _check_layer(layer: str, members: list[tuple[str, ExperimentConfig]]) -> None:
    in_order = sorted(members, key=lambda member: member[1].slots or (0, 0))
    for (path, experiment), (next_path, following) in pairwise(in_order):
        if experiment.unit != following.unit:
            raise BadConfiguration(
                f"{next_path}.unit: experiments of the layer {layer!r} randomise the same unit, and {path} has {experiment.unit!r}."
            )
        if experiment.slots is not None and following.slots is not None and following.slots[0] < experiment.slots[1]:
            raise BadConfiguration(
                f"{next_path}.slots: {list(following.slots)} overlaps with {list(experiment.slots)} of {path}, which is in the layer"
                f" {layer!r}, too. Slots are from the first up to and without the last."
            )


def _check_share(path: str, meaning: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise BadConfiguration(f"{path} is {meaning}, from 0 to 1, not {share:g}.")


def _check_unit(path: str, unit: str) -> None:
    if unit not in _UNITS and not (unit.startswith("tag:") and 0 < len(unit.removeprefix("tag:")) <= MAX_NAME_CHARACTERS):
        raise BadConfiguration(f"{path}: {unit!r:.100} is not one of: {', '.join(_UNITS)}, tag:NAME.")


def _check_ramp(path: str, experiment: ExperimentConfig) -> None:
    if len(experiment.ramp) > _MAX_RAMP_STEPS:
        raise BadConfiguration(f"{path}.ramp has at most {_MAX_RAMP_STEPS} steps, not {len(experiment.ramp)}.")
    after_hours = 0.0
    for at, step in enumerate(experiment.ramp):
        if not after_hours < step.after_hours <= _MAX_RAMP_HOURS:
            raise BadConfiguration(
                f"{path}.ramp[{at}].after_hours: steps come one after the other, at most {_MAX_RAMP_HOURS} hours after the start."
            )
        after_hours = step.after_hours
        _check_share(f"{path}.ramp[{at}].enrolment", "the share of units that take part", step.enrolment)


def _check_eligible(path: str, experiment: ExperimentConfig) -> None:
    for dimension, values in experiment.eligible.items():
        if dimension not in ("key", "team") and not (dimension.startswith("tag:") and len(dimension) > len("tag:")):
            raise BadConfiguration(f"{path}: {dimension!r:.100} is not one of: key, team, tag:NAME.")
        if not 1 <= len(values) <= _MAX_VALUES:
            raise BadConfiguration(f"{path}.{dimension}: 1 to {_MAX_VALUES} values take part, not {len(values)}.")
        for value in values:
            if not value or not value.isprintable() or len(value) > MAX_NAME_CHARACTERS:
                raise BadConfiguration(f"{path}.{dimension}: a value has 1 to {MAX_NAME_CHARACTERS} printable characters.")
            if dimension == "key" and not value.startswith("nx-"):
                raise BadConfiguration(f"{path}.key: {value!r:.100} is not the public part of a key, which begins with nx-.")


def _check_slots(path: str, experiment: ExperimentConfig) -> None:
    if (experiment.layer is None) != (experiment.slots is None):
        missing = "layer" if experiment.layer is None else "slots"
        raise BadConfiguration(f"{path}.{missing} is missing: `layer` and `slots` belong together.")
    if experiment.slots is not None and not 0 <= experiment.slots[0] < experiment.slots[1] <= LAYER_SLOTS:
        raise BadConfiguration(f"{path}.slots: the first slot (0 to {LAYER_SLOTS - 1}), and the one after the last (up to {LAYER_SLOTS}).")


def _check_ends(path: str, experiment: ExperimentConfig, default: str | None) -> None:
    for arm in experiment.stopped:
        if arm not in experiment.arms:
            raise BadConfiguration(f"{path}.stopped: {arm!r:.100} is not one of its arms: {', '.join(sorted(experiment.arms))}.")
        if arm == experiment.control_arm(default):
            raise BadConfiguration(f"{path}.stopped: {arm!r:.100} is the control, which serves what other arms do not.")
    if len(set(experiment.stopped)) < len(experiment.stopped):
        raise BadConfiguration(f"{path}.stopped names one twice.")
    if experiment.winner is None:
        return
    if experiment.winner not in experiment.arms:
        raise BadConfiguration(f"{path}.winner: {experiment.winner!r:.100} is not one of its arms: {', '.join(sorted(experiment.arms))}.")
    if experiment.status != "ended":
        raise BadConfiguration(f'{path}.winner serves once the experiment has ended: set `status = "ended"`, too.')
