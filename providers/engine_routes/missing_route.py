"""Missing routes: an engine that could have a route, but not as it was started, is RouteNotServed rather than a missing model."""

import re

from providers.canonical.errors import RouteNotServed, UpstreamError

# The messages of frameworks for a path that nobody serves: FastAPI, llama.cpp's server, Go's, and a 404 with an empty body, for which
# providers/canonical/upstream_errors.py writes the message. For a missing model engines write more.
_ROUTE_NOT_FOUND = re.compile(
    r"(?:file |404 page )?not found\.?|The engine responded with 404 and no message\.|method not allowed", re.IGNORECASE
)


def explain_missing_route(error: UpstreamError, path: str, upstream_name: str) -> UpstreamError:
    """RouteNotServed where the error shows only that the engine does not serve the path; else the error itself.

    vLLM serves /rerank, /score, /classify and /pooling only with a model for them (0.33: pooling/factories.py); llama.cpp answers 501 to
    /rerank unless it was started with --reranking (tools/server, read 2026-11).
    """
    if error.upstream_status == 501 or (error.upstream_status in (404, 405) and _ROUTE_NOT_FOUND.fullmatch(error.message)):
        return RouteNotServed(
            f"{upstream_name} does not serve {path} as it was started, or not for this model (its message: {error.message!r}). "
            "Start it for this task, or choose another model.",
            upstream_status=error.upstream_status,
        )
    return error
