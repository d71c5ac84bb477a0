"""The body of /metrics: all series of this machine's processes that are still of something."""

import os
from collections.abc import Collection, Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.process.model_series import OTHER

CONTENT_TYPE = CONTENT_TYPE_LATEST.replace("; charset=utf-8", "")  # Litestar adds it


def render_series(registry: CollectorRegistry, models: Collection[str] | None) -> bytes:
    """Renders the metrics of a process, or of all processes where they share a folder. `models` are those of _LiveSeries."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # pyright: ignore[reportUnknownMemberType]
    shown = CollectorRegistry(auto_describe=False)
    shown.register(_LiveSeries(registry, models))
    return generate_latest(shown)


class _LiveSeries(Collector):
    """Collects from another registry, without the series of models that no longer exist.

    Files of other processes still hold these. `models` are those that exist; None means that they are not known yet.
    """

    def __init__(self, registry: CollectorRegistry, models: Collection[str] | None) -> None:
        self._registry = registry
        self._models = models

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            if self._models is not None:
                metric.samples = [sample for sample in metric.samples if self._is_live(sample.labels.get("model", OTHER))]
            yield metric

    def _is_live(self, model: str) -> bool:
        return model == OTHER or self._models is None or model in self._models
