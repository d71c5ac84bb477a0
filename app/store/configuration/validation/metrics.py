"""Validation of metrics."""

from app.domain.errors import BadConfiguration
from app.domain.experiments import BUILT_IN_METRICS, MetricConfig


def check_metric(name: str, metric: MetricConfig) -> None:
    """Raises BadConfiguration for the first error."""
    if name in BUILT_IN_METRICS:
        raise BadConfiguration(f"metrics.{name}: every gateway has this metric: choose another name.")
    if metric.optimize is not None and metric.kind not in ("boolean", "float"):
        raise BadConfiguration(f"metrics.{name}.optimize: only metrics of kind boolean or float can be optimized, not of {metric.kind}.")
    if metric.kind == "demonstration" and metric.level != "inference":
        raise BadConfiguration(f"metrics.{name}.level: a demonstration is of an inference: it says what the response should have been.")
