"""From the name that a caller asked for to what will be tried, in order. Pure: no I/O, the same on every worker."""

import hashlib
import math

from app import uuid7
from app.domain import MODEL_PREFIXES, Caller, Plan, Snapshot, Target
from app.gateway.permissions import may_use
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownModel

_CLOCK_SKEW_MS = 60_000


def plan(snapshot: Snapshot, caller: Caller, name: str, inference_id: str) -> Plan:
    """Raises UnknownModel or NotAllowed, naming what may be used. A fallback needs no right of its own: whoever configured it chose it."""
    model = name
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    if caller.models is not None and not may_use(caller, model):  # first: what there is besides is not for this key to know
        raise NotAllowed(f"This key may not use the model {name!r:.100}{_usable_models_hint(snapshot, caller)}", param="model")
    if model not in snapshot.models:
        raise UnknownModel(_unknown_message(snapshot, caller, name), param="model")
    config = snapshot.models[model]
    if len(config.targets) == 1 and not config.fallbacks:
        return Plan(name, model, config.targets, (model,), snapshot)
    # Fallbacks of fallbacks are not followed: what serves a name can be read off its own entry.
    candidates = [
        (target, model_name)
        for model_name in (model, *config.fallbacks)
        for target in order_targets(snapshot.models[model_name].targets, inference_id)
    ]
    return Plan(name, model, tuple(target for target, _ in candidates), tuple(each for _, each in candidates), snapshot)


def order_targets(targets: tuple[Target, ...], seed: str) -> tuple[Target, ...]:
    """As listed; or, where weights are given, drawn by weight without replacement (one not given counts as 1, and 0 is never tried)."""
    if all(target.weight is None for target in targets):
        return targets
    weighted = [(1.0 if target.weight is None else target.weight, index, target) for index, target in enumerate(targets)]
    # Efraimidis and Spirakis: the order of log(u) / w is a weighted sample without replacement.
    keyed = [(math.log(_uniform(seed, at)) / weight, at, target) for weight, at, target in weighted if weight > 0]
    return tuple(target for _, _, target in sorted(keyed, reverse=True))


def _uniform(seed: str, index: int) -> float:
    """A number above 0 and at most 1, even over seeds."""
    return (int.from_bytes(hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()) + 1) / 2**64


def _unknown_message(snapshot: Snapshot, caller: Caller, name: str) -> str:
    if name.startswith(("tensorzero::function_name::", "narthex::function_name::")):
        return f"There is no function {name.partition('::function_name::')[2]!r:.100}: no functions are configured."
    return f"There is no model {name!r:.100}{_usable_models_hint(snapshot, caller)}"


def _usable_models_hint(snapshot: Snapshot, caller: Caller) -> str:
    usable = sorted(name for name in snapshot.models if may_use(caller, name))
    if not usable:
        return ": none is configured yet." if not snapshot.models else ". This key may use none of those there are."
    more = f" and {len(usable) - 50} more (GET /v1/models lists all)" if len(usable) > 50 else ""
    return f". This key may use: {', '.join(usable[:50])}{more}."


def check_episode(episode_id: str, now_ms: float) -> str:
    """The id as it is kept. Raises Malformed unless it is a UUIDv7 that was born by now, give or take a minute of skewed clocks."""
    if not uuid7.is_uuid7(episode_id):
        raise InvalidRequest(
            f"`episode_id` must be a UUIDv7, as an earlier answer gave it; {episode_id!r:.60} is none.", param="episode_id"
        )
    if uuid7.created_ms(episode_id) > now_ms + _CLOCK_SKEW_MS:
        raise InvalidRequest("`episode_id` lies in the future: it was born more than a minute from now.", param="episode_id")
    return episode_id.lower()
