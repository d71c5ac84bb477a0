"""GET /docs: the guide (app/api/reference.md) and every operation as a page. GET /openapi.json: the OpenAPI document.

GET /docs/static/NAME: what the page loads.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, Router, get
from markdown_it import MarkdownIt

from app.api.dashboard.file_responses import PAGE_HEADERS, STATIC_HEADERS, respond_file
from app.api.dashboard.routes import PATH as DASHBOARD_PATH
from app.api.dashboard.static_files import StaticFiles
from app.api.openapi.addressed_pages import AddressedPages
from app.api.openapi.addresses import server_address, with_port
from app.api.openapi.document import build_document
from app.api.openapi.page import STATIC_PATH, render_page
from app.api.openapi.schemas import Schema
from app.api.rest.operation import Operation
from app.api.server.response_coding import accepts_gzip
from app.api.server.response_headers import new_request_headers
from app.settings import Settings
from providers.canonical.errors import UnknownRoute

# What is at the address of the admin API, where it has one of its own.
_ADMIN_PATHS = ("/admin/", DASHBOARD_PATH, "/docs", "/openapi.json")
_HTML = "text/html"  # Litestar adds the charset
_GUIDE_ADDRESS = "http://127.0.0.1:8787"
# The guide's links to files of the repository, which this server does not have.
_FILE_LINK = re.compile(r'<a href="(?:\.\./)+([^"]+)">(.*?)</a>')
# Where this server's address belongs, and that of inference routes: another one if the admin API has an address of its own.
_ADDRESS, _CALLERS = "http://this-server.invalid", "http://for-callers.invalid"


class _Documentation:
    """The document and the page; for each address only the addresses in them differ. `files`: those that the page loads."""

    def __init__(self, operations: Sequence[Operation[Any, Any]], settings: Settings, files: Sequence[str]) -> None:
        self._settings = settings
        self.default_address = f"{'https' if settings.tls_cert else 'http'}://127.0.0.1:{settings.admin_port or settings.port}"
        document: Schema = {**build_document(operations), "servers": [{"url": _ADDRESS}]}
        paths: Schema = document["paths"]
        if settings.dashboard == "off":
            paths = document["paths"] = {path: item for path, item in paths.items() if not path.startswith(DASHBOARD_PATH)}
        if settings.admin_port:
            document["paths"] = {
                path: item if path.startswith(_ADMIN_PATHS) else {**item, "servers": [{"url": _CALLERS}]} for path, item in paths.items()
            }
        self._document = msgspec.json.encode(document)
        guide = MarkdownIt("commonmark").enable("table").render((Path(__file__).parents[1] / "reference.md").read_text("utf-8"))
        guide = _FILE_LINK.sub(r"\2 (<code>\1</code>)", guide)
        guide = guide.replace(f"{_GUIDE_ADDRESS}/admin/", f"{_ADDRESS}/admin/").replace(_GUIDE_ADDRESS, _CALLERS)
        dashboard = DASHBOARD_PATH if settings.dashboard == "on" else None
        self._page = render_page(document, guide, files, dashboard=dashboard).encode()
        self.documents = AddressedPages(lambda address: self._addressed(self._document, address), self.default_address)
        self.pages = AddressedPages(lambda address: self._addressed(self._page, address), self.default_address)

    def _addressed(self, content: bytes, address: str) -> bytes:
        callers = with_port(address, self._settings.port) if self._settings.admin_port else address
        return content.replace(_ADDRESS.encode(), address.encode()).replace(_CALLERS.encode(), callers.encode())


def routes(operations: Sequence[Operation[Any, Any]], settings: Settings, static_files: StaticFiles) -> Router:
    made: _Documentation | None = None
    making = asyncio.Lock()

    async def documentation() -> _Documentation:
        """Made for the first request, in a thread: it takes some tenths of a second, which nobody else waits for."""
        nonlocal made
        async with making:
            if made is None:
                files = [name for name, file in (await static_files.all()).items() if file.reference]
                made = await asyncio.to_thread(_Documentation, operations, settings, files)
            return made

    async def respond(request: Request[Any, Any, Any], pages: AddressedPages, default: str, media_type: str) -> Response[bytes]:
        found = await pages.page(server_address(request, settings.trusted_proxies.parsed, default))
        is_compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {
            **new_request_headers(),
            **(PAGE_HEADERS if media_type == _HTML else {}),
            "etag": f'"{found.etag}-gzip"' if is_compressed else f'"{found.etag}"',  # of these bytes: RFC 9110, section 8.8.3
            "cache-control": "no-cache",
            "vary": "accept-encoding, host, x-forwarded-proto",
        }
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(b"", status_code=304, headers=headers)
        if is_compressed:
            headers["content-encoding"] = "gzip"
        return Response(found.compressed if is_compressed else found.plain, media_type=media_type, headers=headers)

    @get("/docs")
    async def docs(request: Request[Any, Any, Any]) -> Response[bytes]:
        made = await documentation()
        return await respond(request, made.pages, made.default_address, _HTML)

    @get("/openapi.json")
    async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
        made = await documentation()
        return await respond(request, made.documents, made.default_address, "application/json")

    @get(f"{STATIC_PATH}/{{name:str}}")
    async def docs_file(request: Request[Any, Any, Any], name: str) -> Response[bytes]:
        file = (await static_files.all()).get(name)
        if file is None or not file.reference:
            raise UnknownRoute(f"The API reference has no file {name!r:.100}: it is of another version. Load the page again.")
        return respond_file(request, file, STATIC_HEADERS)

    return Router("/", route_handlers=[docs, docs_file, openapi])
