"""The path that a caller meant: a base URL with or without /v1 is the most common mistake in a client's configuration."""

from collections.abc import Collection


def meant_path(path: str, served: Collection[str]) -> str | None:
    """The one of the served paths that differs only in slashes, /v1 missing or repeated, or letters' case. None: there is none."""
    parts = [part for part in path.lower().split("/") if part]
    while parts and parts[0] == "v1":
        del parts[0]
    for candidate in ("/v1/" + "/".join(parts), "/" + "/".join(parts)):
        if candidate in served and candidate != path:
            return candidate
    return None
