"""Paths with an encoded slash, or another second spelling: they lead to no route that a proxy in front would not recognise.

A proxy that keeps callers from /admin compares the path as it was sent. `/admin%2Fv1/keys` must not be routed as `/admin/v1/keys`, while
the name of a model or a team may hold a slash, and then arrives with an encoded one.
"""

from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

_ENCODED_SLASH, _ENCODED_PERCENT = "%2F", "%25"
_ADMIN_SEGMENT = "admin"


class SegmentedPaths:
    """ASGI: decodes each segment of a path by itself, so that an encoded slash separates nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (b"%" in scope["raw_path"] or b"//" in scope["raw_path"]):
            scope["path"] = routed_path(scope["raw_path"].decode("ascii"))
        await self._app(scope, receive, send)


def routed_path(raw_path: str) -> str:
    """The path by which a route is looked up. That of admins has one spelling; any other is left as it was sent, which leads nowhere."""
    segments = [unquote(each) for each in raw_path.split("/")]
    first = next(filter(None, segments), "")
    if first == _ADMIN_SEGMENT and not raw_path.startswith(f"/{_ADMIN_SEGMENT}/"):
        return f"/{_ENCODED_SLASH}{raw_path}"
    # A percent sign of a name, too: otherwise a name that holds %2F would be read as one with a slash.
    return "/".join(each.replace("%", _ENCODED_PERCENT).replace("/", _ENCODED_SLASH) for each in segments)


def decode_slashes(name: str) -> str:
    """A name from a routed path, or the path itself, with the slashes and percent signs that it was sent with."""
    return name.replace(_ENCODED_SLASH, "/").replace(_ENCODED_PERCENT, "%")
