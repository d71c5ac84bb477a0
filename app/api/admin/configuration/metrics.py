"""Metrics of feedback: /admin/v1/metrics and /{name}, as [metrics.NAME] of a configuration file."""

from typing import Any, Literal

from msgspec import Struct

from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Search
from app.api.rest.operation import Operation
from app.domain.experiments import MetricKind, MetricLevel
from app.settings import Settings
from app.store.configuration.entries import METRICS, metrics_with
from app.store.postgres.paging import After, Limit


class MetricQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"
    search: Search | None = None
    kind: MetricKind | None = None
    level: MetricLevel | None = None


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    metrics = EntryResource(
        section=METRICS,
        noun="metric",
        path="/metrics",
        key_path="/{name}",
        tag="Metrics",
        about="A metric: feedback that callers may send.",
        query=MetricQuery,
        conditions=lambda query: metrics_with(query.kind, query.level),
        example={"kind": "boolean", "level": "inference", "optimize": "max"},
        patch_example={"optimize": None},
        identified={"name": "helpful"},
        gateway_settings=settings,
    )
    return entry_operations(metrics)
