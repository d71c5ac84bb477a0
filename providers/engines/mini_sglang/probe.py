"""Probe of mini-sglang. Source: docs/sources.md#mini-sglang, read 2026-11."""

from providers.adapters.probe import EngineProbe

MINI_SGLANG_PROBE = EngineProbe("/v1", owner="mini-sglang")
