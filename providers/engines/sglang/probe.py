"""Probe of SGLang. Its /health runs a generation, so /ready is requested. Source: docs/sources.md#sglang, read 2026-11."""

from collections.abc import Sequence

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.lora import LoadedAdapters
from providers.adapters.probe import EngineProbe, ListedModel, ProbeResponses, listed_adapters, object_at, version_at


def _is_sglang(responses: ProbeResponses) -> bool:
    about = object_at(responses, "/server_info")
    return "version" in about and "model_path" in about


def _read_lora_adapters(responses: ProbeResponses, models: Sequence[ListedModel] | None, router: str | None) -> LoadedAdapters:
    """Returns None if no adapter is listed: only later versions list them among their models, so that shows nothing."""
    return listed_adapters(models or ()) or None


SGLANG_PROBE = EngineProbe(
    "/ready",
    ("/server_info", "/get_server_info"),
    owner="sglang",
    is_recognised=_is_sglang,
    read_version=version_at("/server_info", "/get_server_info"),
    read_lora_adapters=_read_lora_adapters,
    load_metrics=LoadMetrics((b"sglang:num_running_reqs",), (b"sglang:num_queue_reqs",), b"sglang:token_usage"),
)
