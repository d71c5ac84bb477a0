"""Probe of vLLM. Sources: docs/sources.md#vllm and #routers; read 2026-11."""

from collections.abc import Sequence

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.lora import LoadedAdapters
from providers.adapters.probe import EngineProbe, ListedModel, ProbeResponses, listed_adapters, version_at


def _find_router(responses: ProbeResponses, models: Sequence[ListedModel]) -> str | None:
    """Routers list vLLM's models without their lengths, and have a /version of their own."""
    return "unknown" if models and not any(model.context_length for model in models) else None


def _read_lora_adapters(responses: ProbeResponses, models: Sequence[ListedModel] | None, router: str | None) -> LoadedAdapters:
    """vLLM lists them among its models. Of routers, not all show which models are adapters."""
    if models is None:
        return None
    adapters = listed_adapters(models)
    return None if not adapters and router is not None else adapters


VLLM_PROBE = EngineProbe(
    "/health",
    ("/version", "/engines"),
    owner="vllm",
    read_version=version_at("/version"),
    find_router=_find_router,
    read_lora_adapters=_read_lora_adapters,
    load_metrics=LoadMetrics((b"vllm:num_requests_running",), (b"vllm:num_requests_waiting",), b"vllm:kv_cache_usage_perc"),
)
