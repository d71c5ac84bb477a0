"""Probe of `transformers serve`."""

from typing import Any, cast

from providers.adapters.probe import EngineProbe, ProbeResponses, object_at


def _is_transformers(responses: ProbeResponses) -> bool:
    """Recognised by its routes. Source: transformers/cli/serving/server.py (5.19), read 2026-11."""
    routes = object_at(responses, "/openapi.json").get("paths")
    return isinstance(routes, dict) and {"/load_model", "/reset", "/v1/chat/completions"} <= cast("dict[str, Any]", routes).keys()


TRANSFORMERS_PROBE = EngineProbe("/health", is_recognised=_is_transformers)
