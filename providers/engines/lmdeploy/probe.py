"""Probe of LMDeploy, and of its proxy. Source: docs/sources.md#lmdeploy, read 2026-11."""

from collections.abc import Sequence

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.lora import LoadedAdapters
from providers.adapters.probe import EngineProbe, ListedModel, ProbeResponses


def _find_router(responses: ProbeResponses, models: Sequence[ListedModel]) -> str | None:
    nodes = responses.get("/nodes/status")
    return "lmdeploy-proxy" if nodes is not None and nodes.status == 200 else None


def _read_lora_adapters(responses: ProbeResponses, models: Sequence[ListedModel] | None, router: str | None) -> LoadedAdapters:
    """LMDeploy does not show which models are adapters, so all of them count."""
    if models is None:
        return None
    adapters: dict[str, int | None] = {model.id: None for model in models}
    return None if not adapters and router is not None else adapters


LMDEPLOY_PROBE = EngineProbe(
    "/health",
    ("/nodes/status",),
    owner="lmdeploy",
    find_router=_find_router,
    read_lora_adapters=_read_lora_adapters,
    load_metrics=LoadMetrics(
        (b"lmdeploy:num_requests_running",),
        (b"lmdeploy:num_requests_waiting", b"lmdeploy:num_api_requests_waiting"),
        b"lmdeploy:gpu_cache_usage_perc",
    ),
)
