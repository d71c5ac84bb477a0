"""The operator's choice of fields that may be dropped: option `drop` of models, providers, teams and keys."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from app.domain.callers import DroppableFields
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps


class OperatorDrops:
    """The `drop` settings of models and of providers, by their names. Those without it have no entry."""

    def __init__(self, models: Mapping[str, DroppableFields], providers: Mapping[str, DroppableFields]) -> None:
        self._models = models
        self._providers = providers

    def extend(self, may_drop: Callable[[str], bool], models: Iterable[str], provider: str) -> Callable[[str], bool]:
        """Returns a predicate for fields that the caller (`may_drop`) or the operator allows to be dropped at a target.

        The operator allows it by the target's provider or by one of the models.

        `models` are the requested one, the one that the target belongs to if that is another, and those by
        which the one led to the other.
        """
        choices: list[DroppableFields] = [self._models[model] for model in models if model in self._models]
        if provider in self._providers:
            choices.append(self._providers[provider])
        return extend_may_drop(may_drop, choices) if choices else may_drop


def extend_may_drop(may_drop: Callable[[str], bool], choices: Sequence[DroppableFields]) -> Callable[[str], bool]:
    """Returns a predicate for fields that `may_drop` or any of the operator's choices allows to be dropped."""
    if "all" in choices:
        return _drop_everything
    fields = frozenset[str]().union(*choices)
    return lambda field: field in fields or may_drop(field)


def read_operator_drops(snapshot: Snapshot) -> OperatorDrops | None:
    """Reads `drop` of all models and providers, in steps.

    Returns None if none has it, so that requests need not look for it.
    """
    models: dict[str, DroppableFields] = {name: model.drop for name, model in in_steps(snapshot.models.items()) if model.drop}
    providers: dict[str, DroppableFields] = {
        name: provider.drop for name, provider in in_steps(snapshot.providers.items()) if provider.drop
    }
    return OperatorDrops(models, providers) if models or providers else None


def _drop_everything(field: str) -> bool:
    return True
