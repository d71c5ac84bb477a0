"""From the name that a caller asked for to what will be tried, in order. Pure: no I/O, the same on every worker."""

import hashlib
import itertools
import math

from app import uuid7
from app.domain import Directory, Plan, Target
from providers.errors import Malformed, UnknownModel

# TensorZero's names for a model, which its clients send; ours besides.
_PREFIXES = ("tensorzero::model_name::", "narthex::model_name::")
_TOLERANCE_MS = 60_000


def plan(directory: Directory, name: str, inference_id: str) -> Plan:
    """Raises UnknownModel, naming what may be used."""
    model = name
    for prefix in _PREFIXES:
        model = model.removeprefix(prefix)
    if model not in directory.models:
        raise UnknownModel(_unknown(directory, name), param="model")
    return Plan(name, _targets(directory, model, inference_id), directory)


def _targets(directory: Directory, model: str, inference_id: str) -> tuple[Target, ...]:
    config = directory.models[model]
    if len(config.targets) == 1 and not config.fallbacks:
        return config.targets
    # Fallbacks of fallbacks are not followed: what serves a name can be read off its own entry.
    names = (model, *config.fallbacks)
    return tuple(itertools.chain.from_iterable(in_order(directory.models[each].targets, inference_id) for each in names))


def in_order(targets: tuple[Target, ...], seed: str) -> tuple[Target, ...]:
    """As listed; or, where weights are given, drawn by weight without replacement (one not given counts as 1, and 0 is never tried)."""
    if all(target.weight is None for target in targets):
        return targets
    weighted = [(1.0 if target.weight is None else target.weight, at, target) for at, target in enumerate(targets)]
    # Efraimidis and Spirakis: the order of log(u) / w is a weighted sample without replacement.
    drawn = [(math.log(_chance(seed, at)) / weight, at, target) for weight, at, target in weighted if weight > 0]
    return tuple(target for _, _, target in sorted(drawn, reverse=True))


def _chance(seed: str, at: int) -> float:
    """A number above 0 and at most 1, even over seeds."""
    return (int.from_bytes(hashlib.blake2b(f"{seed}/{at}".encode(), digest_size=8).digest()) + 1) / 2**64


def _unknown(directory: Directory, name: str) -> str:
    if name.startswith(("tensorzero::function_name::", "narthex::function_name::")):
        return f"There is no function {name.partition('::function_name::')[2]!r:.100}: no functions are configured."
    some = sorted(directory.models)
    if not some:
        return f"There is no model {name!r:.100}: none is configured yet."
    more = f" and {len(some) - 50} more (GET /v1/models lists all)" if len(some) > 50 else ""
    return f"There is no model {name!r:.100}. This key may use: {', '.join(some[:50])}{more}."


def check_episode(episode_id: str, now_ms: float) -> str:
    """The id as it is kept. Raises Malformed unless it is a UUIDv7 that was born by now, give or take a minute of skewed clocks."""
    if not uuid7.is_uuid7(episode_id):
        raise Malformed(f"`episode_id` must be a UUIDv7, as an earlier answer gave it; {episode_id!r:.60} is none.", param="episode_id")
    if uuid7.born_ms(episode_id) > now_ms + _TOLERANCE_MS:
        raise Malformed("`episode_id` lies in the future: it was born more than a minute from now.", param="episode_id")
    return episode_id.lower()
