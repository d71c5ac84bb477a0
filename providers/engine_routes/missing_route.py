"""Missing routes: an engine that could have a route, but not as it was started, is RouteNotServed rather than a missing model.

Where a server does not even have the API that a provider speaks, its address is wrong: that is ApiMissing.
"""

import re

from providers.canonical.errors import ApiMissing, CredentialRefused, RouteNotServed, UpstreamError

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


def explain_missing_api(error: UpstreamError, content_type: str, upstream_name: str) -> UpstreamError:
    """ApiMissing where the response to a request of the provider's own API shows that the server has no such path; else the error itself.

    A redirect, or a web page that says so, is no answer of an API, either. Other pages come from what stands before it: a proxy that finds
    a body too large, or refuses a credential.
    """
    status = error.upstream_status
    if status is None or status >= 500 or isinstance(error, CredentialRefused):
        return error
    is_page = content_type.lower().startswith("text/html")
    is_unknown_path = status in (404, 405) and (is_page or _ROUTE_NOT_FOUND.fullmatch(error.message) is not None)
    if status >= 400 and not is_unknown_path:
        return error
    return ApiMissing(
        f"There is no such API at the address of {upstream_name}: it answers {status}"
        f"{' with a web page' if is_page else ''}. Whoever operates the gateway should correct its"
        " base_url.",
        upstream_status=status,
    )
