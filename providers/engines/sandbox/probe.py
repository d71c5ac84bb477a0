"""Probe of the sandbox engine."""

from providers.adapters.probe import EngineProbe, version_at

SANDBOX_PROBE = EngineProbe("/health", ("/version",), owner="narthex-sandbox", read_version=version_at("/version"))
