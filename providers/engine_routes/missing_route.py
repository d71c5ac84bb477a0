"""A route that an engine could have and, as it was started, has not: told as that, and not as a model or a page that is not found."""

import re

from providers.canonical.errors import RouteNotServed, UpstreamError

# What frameworks say of a path that nobody serves: FastAPI, llama.cpp's server, Go's, and those that say nothing. Of a model that they
# do not have engines say more.
_ROUTE_NOT_FOUND = re.compile(
    r"(?:file |404 page )?not found\.?|The engine answered 404 without saying why\.|method not allowed", re.IGNORECASE
)


def explain_missing_route(error: UpstreamError, path: str, upstream_name: str) -> UpstreamError:
    """vLLM has /rerank, /score, /classify and /pooling only for a model that can (0.33: pooling/factories.py); llama.cpp answers 501 to

    /rerank unless it was started with --reranking (tools/server, read 2026-11).
    """
    if error.upstream_status == 501 or (error.upstream_status in (404, 405) and _ROUTE_NOT_FOUND.fullmatch(error.message)):
        return RouteNotServed(
            f"{upstream_name} does not serve {path} as it was started, or not for this model (it said {error.message!r}). "
            "Start it for this task, or choose another model.",
            upstream_status=error.upstream_status,
        )
    return error
