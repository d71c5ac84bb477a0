"""Plan: from the model name in a request to the targets to try, in order. Pure: no I/O, the same on every worker."""

import hashlib
import math
from collections.abc import Mapping

from app import uuid7
from app.domain import MODEL_PREFIXES, Caller, Plan, Snapshot, Target
from app.gateway.permissions import may_use, usable_models
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownModel

_CLOCK_SKEW_MS = 60_000
_NO_TAGS: Mapping[str, str] = {}


def plan(
    snapshot: Snapshot,
    caller: Caller,
    name: str,
    inference_id: str,
    *,
    episode_id: str | None = None,
    tags: Mapping[str, str] = _NO_TAGS,
) -> Plan:
    """The targets of a model, then those of its fallbacks. Weighted targets are drawn by the inference's id.

    `name`: as the caller sent it. `episode_id` (None: there is no episode, as in a preview of limits) and `tags` are reserved for
    experiments (DESIGN.md part 6): they, each with the caller's team, are the unit that will be hashed to an arm. Today no model has arms.

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
    candidates = [
        (target, model_name)
        for model_name in (model, *config.fallbacks)
        for target in order_targets(snapshot.models[model_name].targets, inference_id)
    ]
    return Plan(name, model, tuple(target for target, _ in candidates), tuple(each for _, each in candidates), snapshot)


def order_targets(targets: tuple[Target, ...], seed: str) -> tuple[Target, ...]:
    """As listed if no target has a weight, else drawn by weight without replacement: a missing weight counts as 1, 0 is never tried."""
    if all(target.weight is None for target in targets):
        return targets
    weighted = [(1.0 if target.weight is None else target.weight, index, target) for index, target in enumerate(targets)]
    # Efraimidis and Spirakis: the order of log(u) / w is a weighted sample without replacement.
    keyed = [(math.log(_uniform(seed, at)) / weight, at, target) for weight, at, target in weighted if weight > 0]
    return tuple(target for _, _, target in sorted(keyed, reverse=True))


def _uniform(seed: str, index: int) -> float:
    """A number above 0 and at most 1, uniformly distributed over seeds."""
    return (int.from_bytes(hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()) + 1) / 2**64


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


def check_episode(episode_id: str, now_ms: float) -> str:
    """The id in lower case, as it is stored. Raises InvalidRequest unless it is a UUIDv7 created at most a minute (clock skew) from now."""
    if not uuid7.is_uuid7(episode_id):
        raise InvalidRequest(
            f"`episode_id` must be a UUIDv7, as an earlier response returned it; {episode_id!r:.60} is not one.", param="episode_id"
        )
    if uuid7.created_ms(episode_id) > now_ms + _CLOCK_SKEW_MS:
        raise InvalidRequest("`episode_id` lies in the future: it was created more than a minute from now.", param="episode_id")
    return episode_id.lower()
