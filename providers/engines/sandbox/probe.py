"""Probe of the sandbox engine."""

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.probe import EngineProbe, version_at

SANDBOX_PROBE = EngineProbe(
    "/health",
    ("/version",),
    owner="narthex-sandbox",
    read_version=version_at("/version"),
    load_metrics=LoadMetrics((b"sandbox_requests_running",), (b"sandbox_requests_waiting",)),
)
