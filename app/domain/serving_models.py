"""The targets that serve a model: its own, and those of the models that are arms of its experiment."""

from collections.abc import Iterator, Mapping

from app.domain.routing import ModelConfig, Target


def serving_models(models: Mapping[str, ModelConfig], name: str) -> Iterator[str]:
    """The model itself if it has targets, then its arms. Without fallbacks. An arm has no experiment of its own, and so targets."""
    model = models[name]
    if model.targets:
        yield name
    if model.experiment is not None:
        yield from (arm for arm in model.experiment.arms if arm in models and arm != name)


def serving_targets(models: Mapping[str, ModelConfig], name: str) -> Iterator[tuple[str, Target]]:
    """Their targets, each with the model that it belongs to."""
    return ((each, target) for each in serving_models(models, name) for target in models[each].targets)
