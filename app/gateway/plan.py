"""Plan: from the model name in a request to the targets to try, in order. Pure: no I/O, the same on every worker."""

from collections.abc import Iterator, Mapping

from app.domain import MODEL_PREFIXES, Caller, Plan, Snapshot, Target
from app.gateway.episodes.episode_id import Episode
from app.gateway.permissions import may_use, usable_models
from app.gateway.weighted_rendezvous import order_arms
from providers.canonical.errors import NotAllowed, UnknownModel

_NO_TAGS: Mapping[str, str] = {}


def plan(snapshot: Snapshot, caller: Caller, name: str, episode: Episode, *, tags: Mapping[str, str] = _NO_TAGS) -> Plan:
    """The targets of a model, then those of its fallbacks. Weighted targets are drawn by the caller's team and the episode.

    `name`: as the caller sent it. `tags` are reserved for experiments (DESIGN.md part 6). Today no model has arms.

    Raises UnknownModel or NotAllowed, naming the models that the key may use. A fallback needs no permission: the platform configured it.
    """
    model = name
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    if caller.models is not None and not may_use(caller, model):  # checked first: a key learns nothing about models that it may not use
        raise NotAllowed(f"This key may not use the model {name!r:.100}{_usable_models_hint(snapshot, caller)}", param="model")
    if model not in snapshot.models:
        raise UnknownModel(_unknown_message(snapshot, caller, name), param="model")
    config = snapshot.models[model]
    if len(config.targets) == 1 and not config.fallbacks:
        return Plan(name, model, config.targets, (model,), snapshot)
    # Fallbacks of fallbacks are not followed, so that a model's own entry says everything that may serve it.
    unit = f"{caller.team_id}/{episode.id}".encode()
    candidates = [
        (target, model_name)
        for model_name in (model, *config.fallbacks)
        for target in order_targets(snapshot.models[model_name].targets, model_name, unit)
    ]
    return Plan(name, model, tuple(target for target, _ in candidates), tuple(each for _, each in candidates), snapshot)


def order_targets(targets: tuple[Target, ...], model: str, unit: bytes) -> tuple[Target, ...]:
    """As listed if no target has a weight, else drawn by weight without replacement: a missing weight counts as 1, 0 is never tried.

    A unit keeps its order, whatever becomes of the weights of others: raising one weight moves units to that target alone.
    """
    if all([target.weight is None for target in targets]):
        return targets
    weights = [1.0 if target.weight is None else target.weight for target in targets]
    return tuple(targets[at] for at in order_arms(zip(_names(targets), weights, strict=True), model.encode(), unit))


def _names(targets: tuple[Target, ...]) -> Iterator[bytes]:
    """Of each target, whatever others the model has: its provider and model, and a number that tells equal ones apart."""
    seen: dict[str, int] = {}
    for target in targets:
        name = f"{len(target.provider)}/{target.provider}/{target.model}"
        seen[name] = number = seen.get(name, 0) + 1
        yield f"{name}/{number}".encode()


def _unknown_message(snapshot: Snapshot, caller: Caller, name: str) -> str:
    if name.startswith(("tensorzero::function_name::", "narthex::function_name::")):
        return f"There is no function {name.partition('::function_name::')[2]!r:.100}: no functions are configured."
    return f"There is no model {name!r:.100}{_usable_models_hint(snapshot, caller)}"


def _usable_models_hint(snapshot: Snapshot, caller: Caller) -> str:
    usable = sorted(usable_models(snapshot, caller))
    if not usable:
        return ": none is configured yet." if not snapshot.models else ". This key may use none of the configured models."
    more = f" and {len(usable) - 50} more (GET /v1/models lists all)" if len(usable) > 50 else ""
    return f". This key may use: {', '.join(usable[:50])}{more}."
