"""The plan of a model with an experiment: the targets of the serving arm first, then of the others."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from app.domain.routing import ModelConfig, Target
from app.domain.snapshot import Plan, Snapshot
from app.gateway.experiments.chosen_arm import ChosenArm, other_arms

OrderTargets: TypeAlias = Callable[[tuple[Target, ...], str], Iterable[Target]]


def plan_model_arms(
    snapshot: Snapshot, sent_name: str, model: str, config: ModelConfig, chosen: ChosenArm, order_targets: OrderTargets
) -> Plan:
    """The targets of the serving arm's model, what that falls back to, the other arms, and then what else the model has itself.

    A fallback that is another arm serves as that one. No target is tried twice.
    """
    experiment = config.experiment
    assert experiment is not None
    targets: list[Target] = []
    names: list[str] = []
    variants: list[str] = []
    seen: set[tuple[str, int]] = set()

    def add(arm: str, model_name: str, added: Iterable[Target]) -> None:
        for target in added:
            if (model_name, id(target)) not in seen:
                seen.add((model_name, id(target)))
                targets.append(target)
                names.append(model_name)
                variants.append(arm)

    for arm in (chosen.serving, *other_arms(experiment, chosen.serving)):
        if arm == model:
            add(arm, model, order_targets(config.targets, model))
            continue
        if arm not in snapshot.models:
            add(arm, model, [target for target in config.targets if f"{target.provider}/{target.model}" == arm])
            continue
        add(arm, arm, order_targets(snapshot.models[arm].targets, arm))
        for fallback in snapshot.models[arm].fallbacks:
            add(fallback if fallback in experiment.arms else arm, fallback, order_targets(snapshot.models[fallback].targets, fallback))
    add(model, model, order_targets(config.targets, model))
    for fallback in config.fallbacks:
        add(fallback if fallback in experiment.arms else model, fallback, order_targets(snapshot.models[fallback].targets, fallback))
    return Plan(
        sent_name,
        chosen.serving if chosen.serving in snapshot.models else model,
        tuple(targets),
        tuple(names),
        snapshot,
        variant=chosen.serving,
        variants=tuple(variants),
        assignment=chosen.assignment,
        experiment_model=model,
    )
