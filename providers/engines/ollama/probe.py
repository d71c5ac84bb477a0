"""Probe of Ollama. Source: docs/sources.md#ollama, read 2026-11."""

from typing import Any, cast

from providers.adapters.probe import EngineProbe, ImageSupport, ProbeResponses, object_at, version_at

_LATEST = ":latest"


def _is_ollama(responses: ProbeResponses) -> bool:
    """Some other servers answer every path with the same object, so /info must have none."""
    return set(object_at(responses, "/api/version")) == {"version"} and not object_at(responses, "/info")


def _read_image_support(responses: ProbeResponses) -> ImageSupport:
    """Reads `capabilities` of each model of /api/tags: newer versions list them there (api/types.go, ListModelResponse), older ones do not.

    A model with the tag `latest` may be named without it.
    """
    entries: object = object_at(responses, "/api/tags").get("models")
    support: dict[str, bool] = {}
    for each in cast("list[object]", entries) if isinstance(entries, list) else ():
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        name, capabilities = entry.get("name"), entry.get("capabilities")
        if isinstance(name, str) and isinstance(capabilities, list) and capabilities:
            support[name] = support[name.removesuffix(_LATEST)] = "vision" in cast("list[object]", capabilities)
    return support


OLLAMA_PROBE = EngineProbe(
    "/api/version",
    ("/api/version", "/api/tags"),
    is_recognised=_is_ollama,
    read_version=version_at("/api/version"),
    read_image_support=_read_image_support,
)
