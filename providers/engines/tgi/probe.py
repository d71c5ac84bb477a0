"""Probe of TGI. Its /health runs a generation, so /info is requested. Source: docs/sources.md#tgi, read 2026-11."""

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.probe import EngineProbe, ProbeResponses, object_at, version_at


def _is_tgi(responses: ProbeResponses) -> bool:
    about = object_at(responses, "/info")
    return "model_id" in about and "max_total_tokens" in about


TGI_PROBE = EngineProbe(
    "/info",
    ("/info",),
    is_recognised=_is_tgi,
    read_version=version_at("/info"),
    load_metrics=LoadMetrics((b"tgi_batch_current_size",), (b"tgi_queue_size",)),
)
