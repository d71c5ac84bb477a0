"""Plan: from the model name in a request to the targets to try, in order. Pure: no I/O, the same on every worker."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from app.domain.callers import Caller
from app.domain.functions import FUNCTION_PREFIXES, FunctionConfig
from app.domain.routing import MODEL_PREFIXES, ModelConfig, Target
from app.domain.snapshot import Plan, Snapshot
from app.gateway.experiments.chosen_arm import ChosenArm, choose_serving_arm
from app.gateway.experiments.model_plan import plan_model_arms
from app.gateway.experiments.unit import RequestFacts
from app.gateway.experiments.weighted_rendezvous import order_arms
from app.gateway.routing.permissions import may_use, usable_functions, usable_models
from app.gateway.state.episode_id import Episode
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownModel

_NO_TAGS: Mapping[str, str] = {}


def plan(
    snapshot: Snapshot,
    caller: Caller,
    name: str,
    episode: Episode,
    *,
    tags: Mapping[str, str] = _NO_TAGS,
    end_user: str | None = None,
    now_ms: int = 0,
    current_ms: int = 0,
    pinned_variant: str | None = None,
    session: str | None = None,
) -> Plan:
    """The targets of a model, then those of its fallbacks.

    Weighted targets are drawn by the caller's team and the session, or the episode where there is none: a conversation stays with the
    account that holds its prompt cache and its signed thinking, until that fails.

    Of a function: those of the chosen variant's model, of the models that falls back to, and then of each fallback variant's model. Of a
    model with an experiment: see plan_model_arms(). `name` is what the caller sent. `tags`, `end_user`, `now_ms` and `current_ms` are those
    of RequestFacts. `pinned_variant` is the variant, or arm of a model's experiment, that the caller demands.

    Raises UnknownModel or NotAllowed, naming the models that the key may use, and InvalidRequest for a variant that does not exist. What
    models fall back to, and what a function or an experiment uses, needs no permission: the platform configured it. With the option
    `fallbacks` of the key's team the former does.
    """
    model, config, kept_by = name, snapshot.models.get(name), episode.id if session is None else session
    if config is None:
        for prefix in MODEL_PREFIXES:
            model = model.removeprefix(prefix)
        config = snapshot.models.get(model)
    if config is None:
        facts = RequestFacts(caller, episode, end_user, tags, now_ms, current_ms)
        planned = _plan_function(snapshot, caller, name, model, kept_by, facts, pinned_variant)
        return planned if caller.fallbacks == "any" else _without_forbidden(planned, caller)
    if caller.models is not None and not may_use(caller, model):
        raise _not_allowed(snapshot, caller, name)
    if config.experiment is not None or pinned_variant is not None:
        facts = RequestFacts(caller, episode, end_user, tags, now_ms, current_ms)
        planned = _plan_model_experiment(snapshot, name, model, config, kept_by, facts, pinned_variant)
        return planned if caller.fallbacks == "any" else _without_forbidden(planned, caller)
    if len(config.targets) == 1 and not config.fallbacks:
        return Plan(name, model, config.targets, (model,), snapshot)
    candidates = _targets_of(snapshot, model, f"{caller.team_id}/{kept_by}".encode())
    planned = Plan(name, model, tuple([target for target, _ in candidates]), tuple([each for _, each in candidates]), snapshot)
    return planned if caller.fallbacks == "any" else _without_forbidden(planned, caller)


def without_fallbacks(plan: Plan) -> Plan:
    """Returns the plan with the targets of the chosen model, arm or variant alone.

    What others answer says nothing of it. A model whose targets all have weight 0 has no targets of its own
    and stands for its fallbacks, so its plan stays as it is.
    """
    variants = plan.variants or (None,) * len(plan.targets)
    chosen = plan.variant if plan.variants else None
    own = [at for at, name in enumerate(plan.names) if name == plan.name and variants[at] == chosen]
    return _with_targets(plan, own) if own else plan


def _without_forbidden(plan: Plan, caller: Caller) -> Plan:
    """Returns the plan without fallbacks that the key may not use.

    Raises NotAllowed if nothing else would answer.
    """
    allowed = [at for at, name in enumerate(plan.names) if name == plan.name or may_use(caller, name)]
    if not allowed:
        raise NotAllowed(f"This key may not use what the model {plan.name!r:.100} falls back to, and nothing else answers.", param="model")
    return _with_targets(plan, allowed)


def _with_targets(plan: Plan, own: Sequence[int]) -> Plan:
    """Returns the plan with only the targets at these indexes."""
    if len(own) == len(plan.targets):
        return plan
    targets, names = tuple(plan.targets[at] for at in own), tuple(plan.names[at] for at in own)
    return replace(plan, targets=targets, names=names, variants=tuple(plan.variants[at] for at in own) if plan.variants else ())


def _plan_model_experiment(
    snapshot: Snapshot, name: str, model: str, config: ModelConfig, kept_by: str, facts: RequestFacts, pinned_variant: str | None
) -> Plan:
    """Raises InvalidRequest for a pin to what is no arm."""
    experiment = config.experiment
    if experiment is None or (pinned_variant is not None and pinned_variant not in experiment.arms):
        having = "no variants" if experiment is None else f"these: {', '.join(sorted(experiment.arms))}"
        raise InvalidRequest(f"The model {model!r} has {having}. There is no {pinned_variant!r:.100}.", param="x-narthex-variant")
    chosen = choose_serving_arm(experiment, snapshot.experiments.get(model), model, facts, pinned_variant)
    unit = f"{facts.caller.team_id}/{kept_by}".encode()
    return plan_model_arms(snapshot, name, model, config, chosen, lambda targets, of_model: order_targets(targets, of_model, unit))


def _plan_function(
    snapshot: Snapshot, caller: Caller, name: str, model: str, kept_by: str, facts: RequestFacts, pinned_variant: str | None
) -> Plan:
    """The plan of a request that names a function; `model` is the name without a prefix of models.

    Raises as plan() does, also for a name that is neither a function nor a model.
    """
    function_name = model
    for prefix in FUNCTION_PREFIXES:
        function_name = function_name.removeprefix(prefix)
    if caller.models is not None and not may_use(caller, function_name):  # first: a key learns nothing of what it may not use
        raise _not_allowed(snapshot, caller, name)
    function = snapshot.functions.get(function_name) if model == name else None
    if function is None:
        raise UnknownModel(_unknown_message(snapshot, caller, name), param="model")
    chosen, assignment = assign_variant(snapshot, function_name, function, facts, pinned_variant)
    model = function.variants[chosen].model
    config = snapshot.models[model]
    if len(config.targets) == 1 and not config.fallbacks and not function.fallbacks:
        return Plan(name, model, config.targets, (model,), snapshot, function_name, chosen, (chosen,), assignment)
    unit = f"{caller.team_id}/{kept_by}".encode()
    targets: list[Target] = []
    names: list[str] = []
    variants: list[str] = []
    for variant in (chosen, *function.fallbacks):
        if variant == chosen and variants:
            continue
        for target, model_name in _targets_of(snapshot, function.variants[variant].model, unit):
            targets.append(target)
            names.append(model_name)
            variants.append(variant)
    return Plan(name, model, tuple(targets), tuple(names), snapshot, function_name, chosen, tuple(variants), assignment)


def assign_variant(snapshot: Snapshot, name: str, function: FunctionConfig, facts: RequestFacts, pinned: str | None) -> ChosenArm:
    """The variant that is tried first, by the function's experiment if it has one. Raises as choose_variant() does."""
    if function.experiment is None:
        return ChosenArm(choose_variant(name, function, pinned), None)
    pin = None if pinned is None else choose_variant(name, function, pinned)
    return choose_serving_arm(function.experiment, snapshot.experiments.get(name), function.default, facts, pin)


def choose_variant(name: str, function: FunctionConfig, pinned: str | None) -> str:
    """The variant that whoever takes part in no experiment gets. `pinned` is the one that the caller demands.

    Raises InvalidRequest if that does not exist.
    """
    if pinned is not None:
        if pinned not in function.variants:
            raise InvalidRequest(
                f"The function {name!r} has no variant {pinned!r:.100}. It has: {', '.join(sorted(function.variants)[:50])}.",
                param="x-narthex-variant",
            )
        return pinned
    experiment = function.experiment
    if experiment is not None:
        return experiment.winner or experiment.control_arm(function.default)
    return function.default or next(iter(function.variants))


def _targets_of(snapshot: Snapshot, model: str, unit: bytes) -> list[tuple[Target, str]]:
    """Returns the targets of a model and of its fallbacks, each with the model that it belongs to.

    Fallbacks of fallbacks are not followed, so that a model's own entry says everything that may serve it.
    """
    config = snapshot.models[model]
    candidates = [(target, model) for target in order_targets(config.targets, model, unit)]
    for fallback in config.fallbacks:
        candidates += [(target, fallback) for target in order_targets(snapshot.models[fallback].targets, fallback, unit)]
    return candidates


def order_targets(targets: tuple[Target, ...], model: str, unit: bytes) -> tuple[Target, ...]:
    """Returns the targets as listed if none has a weight, else drawn by weight without replacement.

    A missing weight counts as 1, and a target of weight 0 is never tried.
    A unit keeps its order, whatever becomes of the weights of others: raising one weight moves units to that target alone.
    """
    if all([target.weight is None for target in targets]):
        return targets
    weights = [1.0 if target.weight is None else target.weight for target in targets]
    return tuple(targets[at] for at in order_arms(zip(_names(targets), weights, strict=True), model.encode(), unit))


def _names(targets: tuple[Target, ...]) -> Iterator[bytes]:
    """Yields a name for each target, which does not depend on the other targets of the model.

    It consists of the provider, the model, and a number that tells equal ones apart.
    """
    seen: dict[str, int] = {}
    for target in targets:
        name = f"{len(target.provider)}/{target.provider}/{target.model}"
        seen[name] = number = seen.get(name, 0) + 1
        yield f"{name}/{number}".encode()


def _not_allowed(snapshot: Snapshot, caller: Caller, name: str) -> NotAllowed:
    return NotAllowed(f"This key may not use the model {name!r:.100}{_usable_models_hint(snapshot, caller)}", param="model")


def _unknown_message(snapshot: Snapshot, caller: Caller, name: str) -> str:
    if name.startswith(FUNCTION_PREFIXES):
        return f"There is no function {name.partition('::function_name::')[2]!r:.100}{_usable_models_hint(snapshot, caller)}"
    for prefix in MODEL_PREFIXES:
        name = name.removeprefix(prefix)
    return f"There is no model {name!r:.100}{_usable_models_hint(snapshot, caller)}"


def _usable_models_hint(snapshot: Snapshot, caller: Caller) -> str:
    usable = sorted([*usable_models(snapshot, caller), *usable_functions(snapshot, caller)])
    if not usable:
        return ": none is configured yet." if not snapshot.models else ". This key may use none of the configured models."
    more = f" and {len(usable) - 50} more (GET /v1/models lists all)" if len(usable) > 50 else ""
    return f". This key may use: {', '.join(usable[:50])}{more}."
