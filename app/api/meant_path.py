"""The path that a caller meant: a base URL with or without /v1 is the most common mistake in a client's configuration."""

from app.store.key_validation import ROUTES

_PATHS = frozenset(ROUTES) | {"/health/live", "/health/ready", "/metrics", "/docs"}


def meant_path(path: str) -> str | None:
    """A path of ours that differs only in slashes, /v1 missing or repeated, or letters' case. None: there is none."""
    parts = [part for part in path.lower().split("/") if part]
    while parts and parts[0] == "v1":
        del parts[0]
    for candidate in ("/v1/" + "/".join(parts), "/" + "/".join(parts)):
        if candidate in _PATHS and candidate != path:
            return candidate
    return None
