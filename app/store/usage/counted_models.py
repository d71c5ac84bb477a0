"""Under which models a request counts in limits: the one that it names, that of its variant or arm, and those that these fall back to.

Which of them were tried is not recorded, so what is counted again from records is an upper bound: what may have been tried counts.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.domain.functions import FUNCTION_PREFIXES
from app.domain.routing import MODEL_PREFIXES
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps

# Recorded is the name that the caller sent, with its prefixes.
MODEL_PREFIX_PATTERN = "".join(f"({prefix})?" for prefix in MODEL_PREFIXES)
NAME_PREFIX_PATTERN = MODEL_PREFIX_PATTERN + "".join(f"({prefix})?" for prefix in FUNCTION_PREFIXES)


class FirstTry(NamedTuple):
    """A function or a model with an experiment, one of its variants or arms, and the model that this is tried at first."""

    name: str
    variant: str
    model: str


class OtherNames(NamedTuple):
    """The requests that may count under a model beside those that name it.

    `names` are those of functions and models. `first` has such names with the variant or arm that is tried at
    the model first. `targets` are those of the model, as provider and its model: what they have served was
    tried there.
    """

    names: list[str]
    first: list[tuple[str, str]]
    targets: list[tuple[str, str]]


def first_tries(snapshot: Snapshot) -> Iterator[FirstTry]:
    for name, function in in_steps(snapshot.functions.items()):
        yield from (FirstTry(name, each, variant.model) for each, variant in function.variants.items())
    for name, model in in_steps(snapshot.models.items()):
        if model.experiment is not None:
            yield from (FirstTry(name, arm, arm) for arm in model.experiment.arms if arm in snapshot.models)


def counted_models(snapshot: Snapshot) -> dict[tuple[str, str], None]:
    """Each name that requests may have, with each model under which they may count. In steps."""
    models = snapshot.models
    counted = dict.fromkeys((name, counts_as) for name, model in in_steps(models.items()) for counts_as in (name, *model.fallbacks))
    return counted | dict.fromkeys(
        (each.name, counts_as) for each in first_tries(snapshot) for counts_as in (each.model, *models[each.model].fallbacks)
    )


def find_other_names(snapshot: Snapshot) -> Mapping[str, OtherNames]:
    """Returns the other names of each model that has any, computed in steps."""
    found: dict[str, OtherNames] = {}
    for name, counts_as in counted_models(snapshot):
        if name == counts_as:
            continue
        if counts_as not in found:
            targets = [(target.provider, target.model) for target in snapshot.models[counts_as].targets]
            found[counts_as] = OtherNames([], [], targets)
        found[counts_as].names.append(name)
    for each in first_tries(snapshot):
        if each.name != each.model:
            found[each.model].first.append((each.name, each.variant))
    return found


def sent_names(name: str) -> list[str]:
    """Returns what callers may send for a model, or for a function, of this name."""
    return list(dict.fromkeys([*model_names(name), *function_names(name)]))


def function_names(function: str) -> list[str]:
    """Returns what callers may send for a function."""
    names = [function]
    for prefix in reversed(FUNCTION_PREFIXES):
        names += [prefix + name for name in names]
    return names


def model_names(model: str) -> list[str]:
    """Returns what callers may send for a model."""
    names = [model]
    for prefix in reversed(MODEL_PREFIXES):
        names += [prefix + name for name in names]
    return names
