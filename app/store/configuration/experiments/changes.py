"""Finds what a change of the configuration means for experiments: which begin, end or get a new version.

It refuses what a running experiment does not permit.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from app.domain.errors import BadConfiguration, StillUsed
from app.domain.experiments import Experiment, ExperimentConfig, MetricConfig
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps

Section: TypeAlias = Literal["models", "functions"]


class Owned(Struct, frozen=True):
    """An experiment of the configuration, and the model or function that has it."""

    section: Section
    owner: str
    config: ExperimentConfig
    control: str  # the arm that is meant by none

    @property
    def path(self) -> str:
        return f"{self.section}.{self.owner}.experiment"

    @property
    def name(self) -> str:
        return self.config.name or self.owner

    @property
    def definition(self) -> dict[str, Any]:
        """The part of the experiment that its start freezes, as it is stored."""
        config = self.config
        return {
            "arms": sorted(config.arms),
            "unit": config.unit,
            "control": self.control,
            "holdout": config.holdout,
            "layer": config.layer,
            "slots": None if config.slots is None else list(config.slots),
            "eligible": {name: list(values) for name, values in config.eligible.items()},
            "analysis": msgspec.to_builtins(config.analysis),
        }


class DraftSaved(Struct, frozen=True):
    of: Owned


class DraftDropped(Struct, frozen=True):
    of: Owned


class Started(Struct, frozen=True):
    of: Owned


class VersionAdded(Struct, frozen=True):
    of: Owned


class Ended(Struct, frozen=True):
    """An experiment that a change ended."""

    owner: str
    name: str
    winner: str | None  # None: the control serves


ExperimentChange: TypeAlias = DraftSaved | DraftDropped | Started | VersionAdded | Ended


def find_experiment_changes(current: Snapshot, wanted: Snapshot) -> list[ExperimentChange]:
    """Those that end come first: another may take the name. Raises BadConfiguration for what a running experiment does not permit."""
    before = {each.owner: each for each in owned_experiments(current)}
    after = {each.owner: each for each in owned_experiments(wanted)}
    changes: list[ExperimentChange] = []
    for owner in in_steps(dict.fromkeys((*current.experiments, *before, *after))):
        running = current.experiments.get(owner)
        changes += _changes_of(owner, running, before.get(owner), after.get(owner))
        if running is not None and owner in after and after[owner].config.status == "running":
            _check_metrics(running.name, after[owner].config, current.metrics, wanted.metrics)
    return sorted(changes, key=lambda change: not isinstance(change, Ended | DraftDropped))


def owned_experiments(snapshot: Snapshot) -> Iterator[Owned]:
    for name, model in in_steps(snapshot.models.items()):
        if model.experiment is not None:
            yield Owned("models", name, model.experiment, model.experiment.control_arm(name))
    for name, function in in_steps(snapshot.functions.items()):
        if function.experiment is not None:
            yield Owned("functions", name, function.experiment, function.experiment.control_arm(function.default))


def _changes_of(owner: str, running: Experiment | None, before: Owned | None, after: Owned | None) -> Iterator[ExperimentChange]:
    if running is not None:
        yield from _changes_of_running(owner, running, before, after)
        return
    had_draft = before is not None and before.config.status == "draft"
    if after is not None and after.config.status == "draft":
        if before is not None and had_draft and (before.name != after.name):
            yield DraftDropped(before)
            yield DraftSaved(after)
        elif before is None or not had_draft or _stored_draft(before) != _stored_draft(after):
            yield DraftSaved(after)
        return
    if before is not None and had_draft:
        yield DraftDropped(before)
    if after is not None and after.config.status == "running":
        yield Started(after)


def _stored_draft(draft: Owned) -> tuple[Any, ...]:
    return draft.section, draft.definition, draft.config.salt


def _changes_of_running(owner: str, running: Experiment, before: Owned | None, after: Owned | None) -> Iterator[ExperimentChange]:
    how = f"`narthex experiments stop {running.name}` ends it."
    if after is None:
        path = owner if before is None else before.path
        raise StillUsed(f"{path}: the experiment {running.name!r} is running, so it cannot be removed. {how}")
    if before is not None and before.section != after.section:
        raise StillUsed(f"{after.path}: the experiment {running.name!r} is running at {before.path} and cannot move. {how}")
    config = after.config
    if config.status == "draft":
        raise StillUsed(f"{after.path}.status: the experiment {running.name!r} is running and can only be ended. {how}")
    if config.status == "ended":
        yield Ended(owner, running.name, config.winner)
        return
    if config.salt is not None and config.salt != running.salt:
        if running.unit == "episode":
            raise BadConfiguration(
                f"{after.path}.salt: another salt would move running episodes of {running.name!r}. End it, and start another. {how}"
            )
        yield Ended(owner, running.name, None)
        yield Started(after)
        return
    _check_frozen(running, before, after, how)
    was = None if before is None else before.config
    if was is not None and was.arms == config.arms and was.enrolment == config.enrolment and was.ramp == config.ramp:
        return
    if running.unit != "episode" and running.versions[-1].arms != config.arms:
        raise BadConfiguration(
            f"{after.path}.arms: the unit is {running.unit!r}, which has no time of birth: other weights would move units that were seen"
            " before from one arm to another. Raise `enrolment` instead, or give it another `salt`, which starts a new experiment."
        )
    yield VersionAdded(after)


def _check_metrics(name: str, config: ExperimentConfig, current: Mapping[str, MetricConfig], wanted: Mapping[str, MetricConfig]) -> None:
    """Raises BadConfiguration for a metric that would mean something else: better would be worse, and a guardrail stop what is good."""
    for metric in config.analysis.metrics:
        was, now = current.get(metric), wanted.get(metric)
        if was is not None and now is not None and (was.kind, was.optimize) != (now.kind, now.optimize):
            raise StillUsed(
                f"metrics.{metric}: the experiment {name!r} is running and is read by it, so its `kind` and `optimize` cannot change."
                f" Declare another metric, or end the experiment: `narthex experiments stop {name}`."
            )


def _check_frozen(running: Experiment, before: Owned | None, after: Owned, how: str) -> None:
    """Raises BadConfiguration."""
    started: dict[str, Any] = {
        "name": running.name,
        "arms": sorted(running.versions[0].arms),
        "unit": running.unit,
        "control": running.control,
        "holdout": running.holdout,
        "layer": running.layer,
        "slots": None if running.slots is None else list(running.slots),
        "eligible": {name: list(values) for name, values in running.eligible.items()},
    }
    # Workers do not have it. Not as it is stored: what is written there of a default depends on where the value came from.
    if before is not None and before.config.analysis != after.config.analysis:
        started["analysis"] = before.definition["analysis"]
    wanted: Mapping[str, Any] = {"name": after.name, **after.definition}
    for field, value in started.items():
        if wanted[field] != value:
            was, now = msgspec.json.encode(value).decode(), msgspec.json.encode(wanted[field]).decode()
            raise BadConfiguration(
                f"{after.path}.{field}: the start of {running.name!r} froze it as {was:.200}, so it cannot become {now:.200}."
                f" A weight of 0 retires an arm. {how}"
            )
