"""Probe of Ollama. Source: docs/sources.md#ollama, read 2026-11."""

from providers.adapters.probe import EngineProbe, ProbeResponses, object_at, version_at


def _is_ollama(responses: ProbeResponses) -> bool:
    """Some other servers answer every path with the same object, so /info must have none."""
    return set(object_at(responses, "/api/version")) == {"version"} and not object_at(responses, "/info")


OLLAMA_PROBE = EngineProbe("/api/version", ("/api/version",), is_recognised=_is_ollama, read_version=version_at("/api/version"))
