"""GET /dashboard and any address below it: the page. GET /dashboard/static/NAME: its scripts, styles and font."""

import asyncio
from collections.abc import Mapping
from typing import Any

from litestar import Request, Response, Router, get

from app.api.dashboard.static_files import Coding, StaticFile, best_coding, read_static_files
from app.api.server.response_headers import new_request_headers
from providers.canonical.errors import UnknownRoute

_INDEX = "index.html"
# Nothing is inline and nothing is from elsewhere, and no script may turn text into markup: not even ours.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' blob:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_COMMON = {
    "vary": "accept-encoding",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_PAGE = {
    **_COMMON,
    "content-security-policy": _POLICY,
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# Names have a hash of the content, so that what was loaded once is never asked for again.
_STATIC = {**_COMMON, "cache-control": "public, max-age=31536000, immutable"}


def routes() -> Router:
    found: Mapping[str, StaticFile] | None = None
    reading = asyncio.Lock()

    async def files() -> Mapping[str, StaticFile]:
        """Read for the first request, in a thread."""
        nonlocal found
        async with reading:
            if found is None:
                found = await asyncio.to_thread(read_static_files)
            return found

    @get("/")
    async def get_dashboard(request: Request[Any, Any, Any]) -> Response[bytes]:
        return _respond(request, (await files())[_INDEX], _PAGE)

    @get("/{name:path}")
    async def get_dashboard_file(request: Request[Any, Any, Any], name: str) -> Response[bytes]:
        path = name.strip("/")
        if not path.startswith("static/"):
            return _respond(request, (await files())[_INDEX], _PAGE)
        file = (await files()).get(path.removeprefix("static/"))
        if file is None or path == f"static/{_INDEX}":
            raise UnknownRoute(f"The dashboard has no file {path.removeprefix('static/')!r:.100}: it is of another version. Load it again.")
        return _respond(request, file, _STATIC)

    return Router("/dashboard", route_handlers=[get_dashboard, get_dashboard_file])


def _respond(request: Request[Any, Any, Any], file: StaticFile, headers: Mapping[str, str]) -> Response[bytes]:
    coding: Coding = best_coding(file, request.headers.get("accept-encoding", ""))
    etag = f'"{file.etag}"' if coding == "identity" else f'"{file.etag}-{coding}"'  # of these bytes: RFC 9110, section 8.8.3
    sent = {**new_request_headers(), **headers, "etag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=sent)
    if coding != "identity":
        sent["content-encoding"] = coding
    return Response(file.content[coding], media_type=file.media_type, headers=sent)
