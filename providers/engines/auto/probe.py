"""Probe of an unknown engine: whatever lists its models takes requests."""

from providers.adapters.probe import MODELS_PATH, EngineProbe

AUTO_PROBE = EngineProbe(MODELS_PATH)
