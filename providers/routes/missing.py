"""A route that an engine could have and, as it was started, has not: told as that, and not as a model or a page that is not found."""

import re

from providers.errors import NotServed, UpstreamError

# What frameworks say of a path that nobody serves: FastAPI, llama.cpp's server, Go's, and those that say nothing. Of a model that they
# do not have engines say more.
_NO_ROUTE = re.compile(r"(?:file |404 page )?not found\.?|The engine answered 404 without saying why\.|method not allowed", re.IGNORECASE)


def as_missing(error: UpstreamError, path: str, who: str) -> UpstreamError:
    """vLLM has /rerank, /score, /classify and /pooling only for a model that can (0.33: pooling/factories.py); llama.cpp answers 501 to

    /rerank unless it was started with --reranking (tools/server, read 2026-11).
    """
    if error.told == 501 or (error.told in (404, 405) and _NO_ROUTE.fullmatch(error.message)):
        return NotServed(
            f"{who} does not serve {path} as it was started, or not for this model (it said {error.message!r}). "
            "Start it for this task, or choose another model.",
            told=error.told,
        )
    return error
