"""Keeps what a file does not undo: weights of an adaptive rule, arms that a guardrail has stopped.

A file may be older than these. Whoever changes an experiment by name has seen them. A file that a pipeline
applies again and again would put a failing arm back each time.
"""

from collections.abc import Iterator, Set

from msgspec.structs import replace

from app.domain.experiments import ExperimentConfig
from app.domain.snapshot import Snapshot
from app.store.configuration.experiments.acts import StoppedArms
from app.store.configuration.experiments.changes import Owned, owned_experiments


def keep_acts(current: Snapshot, wanted: Snapshot, stopped: StoppedArms) -> Iterator[tuple[Owned, ExperimentConfig, str]]:
    """Each experiment of which `wanted` would undo something: what to store instead, and a sentence for whoever applies it."""
    before = {each.owner: each for each in owned_experiments(current)}
    for owned in owned_experiments(wanted):
        was = before.get(owned.owner)
        if was is None or owned.config.status != "running" or was.config.status != "running":
            continue
        if was.name != owned.name or was.config.arms.keys() != owned.config.arms.keys():
            continue
        config, kept = _keep(was.config, owned.config, stopped.get(owned.name, set()), owned.name)
        if kept:
            yield owned, config, f"{owned.path}: {kept}"


def _keep(was: ExperimentConfig, wanted: ExperimentConfig, held: Set[str], name: str) -> tuple[ExperimentConfig, str]:
    """The sentences are empty if `wanted` undoes nothing."""
    sentences: list[str] = []
    arms, stopped = dict(wanted.arms), list(wanted.stopped)
    if was.adaptive is not None and wanted.adaptive is not None and was.arms != wanted.arms:
        arms = dict(was.arms)
        sentences.append(f"`arms` keeps the weights of the rule {was.adaptive.rule}; `narthex experiments weights {name}` changes them.")
    for arm in sorted(held):
        is_undone = arms[arm] > was.arms[arm] == 0
        if is_undone:
            arms[arm] = 0.0
        if arm in was.stopped and arm not in stopped:
            stopped.append(arm)
            is_undone = True
        if is_undone:
            sentences.append(
                f"{arm!r} stays stopped, as a guardrail has stopped it (`narthex experiments log {name}`);"
                f" `narthex experiments resume {name} {arm}` puts it back."
            )
    return replace(wanted, arms=arms, stopped=tuple(stopped)), " ".join(sentences)
