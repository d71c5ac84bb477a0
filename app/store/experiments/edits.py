"""Changes of experiments by their names, as edits of the configuration. Each raises BadConfiguration, with what would be right."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from app.domain.errors import BadConfiguration, UnknownExperiment
from app.domain.experiments import ExperimentConfig
from app.store.configuration.configuration import edited
from app.store.configuration.experiments.changes import Owned, owned_experiments
from app.store.configuration.rows import State

Edit: TypeAlias = Callable[[State], State]


def find_owned(state: State, name: str) -> Owned:
    """Raises UnknownExperiment."""
    experiments = list(owned_experiments(state.snapshot))
    for owned in experiments:
        if owned.name == name:
            return owned
    known = ", ".join(sorted(each.name for each in experiments)[:50]) or "none yet"
    raise UnknownExperiment(f"There is no experiment {name!r:.100} in the configuration. There are: {known}.")


def start(name: str) -> Edit:
    def change(owned: Owned) -> ExperimentConfig:
        if owned.config.status == "running":
            raise BadConfiguration(f"The experiment {name!r} is running already.")
        return replace(owned.config, status="running", winner=None, stopped=())

    return _edit(name, change)


def end(name: str, winner: str | None) -> Edit:
    """Ends the experiment. `winner` is the arm that serves from now on; None means the control."""

    def change(owned: Owned) -> ExperimentConfig:
        if owned.config.status == "ended" and owned.config.winner == winner:
            raise BadConfiguration(f"The experiment {name!r} has ended already.")
        return replace(owned.config, status="ended", winner=winner)

    return _edit(name, change)


def stop_arm(name: str, arm: str, *, now: bool) -> Edit:
    """End the enrolment of new episodes in an arm; with `now` the control serves those that are in it, too."""

    def change(owned: Owned) -> ExperimentConfig:
        config = owned.config
        _require_running(name, config)
        _require_arm(owned, arm)
        if arm == owned.control:
            raise BadConfiguration(f"{arm!r} is the control of {name!r}, which serves what other arms do not, so it cannot be stopped.")
        stopped = (*config.stopped, arm) if now and arm not in config.stopped else config.stopped
        if config.unit == "episode":
            return replace(config, arms={**config.arms, arm: 0.0}, stopped=stopped)
        if not now:
            raise BadConfiguration(
                f"The unit of {name!r} is {config.unit!r}, which has no time of birth: new units cannot be told from those that are in the"
                " arm. `now` serves the control to all of them."
            )
        return replace(config, stopped=stopped)

    return _edit(name, change)


def resume_arm(name: str, arm: str, weight: float | None) -> Edit:
    """Put a stopped arm back: one that is in `stopped`, or has the weight 0. Where `weight` is None, it stays as it is, which is more than
    0.
    """

    def change(owned: Owned) -> ExperimentConfig:
        config = owned.config
        _require_running(name, config)
        _require_arm(owned, arm)
        if config.arms[arm] > 0 and arm not in config.stopped:
            raise BadConfiguration(
                f"{arm!r} of {name!r} is not stopped: it has the weight {config.arms[arm]:g}."
                f" `narthex experiments weights {name} {arm}=WEIGHT` sets another one."
            )
        wanted = config.arms[arm] if weight is None else weight
        if wanted == 0:
            raise BadConfiguration(f"{arm!r} has the weight 0 in {name!r}, so it gets no new units: give it another one.")
        return replace(config, arms={**config.arms, arm: wanted}, stopped=tuple(each for each in config.stopped if each != arm))

    return _edit(name, change)


def set_weights(name: str, weights: Mapping[str, float]) -> Edit:
    def change(owned: Owned) -> ExperimentConfig:
        for arm in weights:
            _require_arm(owned, arm)
        return replace(owned.config, arms={**owned.config.arms, **weights})

    return _edit(name, change)


def set_enrolment(name: str, share: float) -> Edit:
    """Sets the share of units that takes part. It also takes the place of the rest of a ramp."""
    return _edit(name, lambda owned: replace(owned.config, enrolment=share, ramp=()))


def _edit(name: str, change: Callable[[Owned], ExperimentConfig]) -> Edit:
    def edit(state: State) -> State:
        owned, snapshot = find_owned(state, name), state.snapshot
        config = change(owned)
        if owned.section == "models":
            return edited(state, models={**snapshot.models, owned.owner: replace(snapshot.models[owned.owner], experiment=config)})
        changed = replace(snapshot.functions[owned.owner], experiment=config)
        return edited(state, functions={**snapshot.functions, owned.owner: changed})

    return edit


def _require_running(name: str, config: ExperimentConfig) -> None:
    if config.status != "running":
        raise BadConfiguration(f"The experiment {name!r} is not running: its status is {config.status!r}.")


def _require_arm(owned: Owned, arm: str) -> None:
    if arm not in owned.config.arms:
        raise BadConfiguration(f"The experiment {owned.name!r} has no arm {arm!r:.100}. It has: {', '.join(sorted(owned.config.arms))}.")
