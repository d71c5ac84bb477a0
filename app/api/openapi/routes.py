"""GET /docs: the guide (app/api/reference.md) and every operation as a page. GET /openapi.json: the OpenAPI document."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, Router, get
from markdown_it import MarkdownIt

from app.api.openapi.addressed_pages import AddressedPages
from app.api.openapi.addresses import server_address, with_port
from app.api.openapi.document import build_document
from app.api.openapi.page import render_contents, render_operations
from app.api.openapi.schemas import Schema
from app.api.rest.operation import Operation
from app.api.server.response_coding import accepts_gzip
from app.api.server.response_headers import new_request_headers
from app.settings import Settings

_STYLE = """body{font:16px/1.55 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f4f2ee;overflow-wrap:anywhere}pre{padding:.8rem;overflow-x:auto}
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #d8d4cc;padding:.3rem .6rem;text-align:left;\
vertical-align:top}details{border-bottom:1px solid #d8d4cc;padding:.3rem 0 .3rem .6rem}summary{cursor:pointer;margin-left:-.6rem}
a{color:#0b57a4}a:focus-visible,summary:focus-visible{outline:3px solid #0b57a4}
@media(prefers-color-scheme:dark){body{color:#e8e6e1;background:#161616}code,pre{background:#262626}a{color:#7cb7ff}\
td,th,details{border-color:#444}}"""
_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    f'<title>Narthex: the API</title><link rel="icon" href="data:,"><style>{_STYLE}</style>'
)
# Nothing is loaded, and nothing runs: only the style above counts.
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; img-src data:;"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HTML = "text/html"  # Litestar adds the charset
_GUIDE_ADDRESS = "http://127.0.0.1:8787"
# The guide's links to files of the repository, which this server does not have.
_FILE_LINK = re.compile(r'<a href="(?:\.\./)+([^"]+)">(.*?)</a>')
# Where this server's address belongs, and that of inference routes: another one if the admin API has an address of its own.
_ADDRESS, _CALLERS = "http://this-server.invalid", "http://for-callers.invalid"


class _Documentation:
    """The document and the page; for each address only the addresses in them differ."""

    def __init__(self, operations: Sequence[Operation[Any, Any]], settings: Settings) -> None:
        self._settings = settings
        self.default_address = f"{'https' if settings.tls_cert else 'http'}://127.0.0.1:{settings.admin_port or settings.port}"
        document: Schema = {**build_document(operations), "servers": [{"url": _ADDRESS}]}
        if settings.admin_port:
            paths: Schema = document["paths"]
            document["paths"] = {
                path: item if path.startswith("/admin/") else {**item, "servers": [{"url": _CALLERS}]} for path, item in paths.items()
            }
        self._document = msgspec.json.encode(document)
        guide = MarkdownIt("commonmark").enable("table").render((Path(__file__).parents[1] / "reference.md").read_text("utf-8"))
        guide = _FILE_LINK.sub(r"\2 (<code>\1</code>)", guide)
        guide = guide.replace(f"{_GUIDE_ADDRESS}/admin/", f"{_ADDRESS}/admin/").replace(_GUIDE_ADDRESS, _CALLERS)
        nav = f'<nav><a href="#operations-list">Every operation</a>: {render_contents(document)}</nav>'
        self._page = f"{_HEAD}{nav}<main>{guide}{render_operations(document)}</main>".encode()
        self.documents = AddressedPages(lambda address: self._addressed(self._document, address), self.default_address)
        self.pages = AddressedPages(lambda address: self._addressed(self._page, address), self.default_address)

    def _addressed(self, content: bytes, address: str) -> bytes:
        callers = with_port(address, self._settings.port) if self._settings.admin_port else address
        return content.replace(_ADDRESS.encode(), address.encode()).replace(_CALLERS.encode(), callers.encode())


def routes(operations: Sequence[Operation[Any, Any]], settings: Settings) -> Router:
    made: _Documentation | None = None
    making = asyncio.Lock()

    async def documentation() -> _Documentation:
        """Made for the first request, in a thread: it takes some tenths of a second, which nobody else waits for."""
        nonlocal made
        async with making:
            if made is None:
                made = await asyncio.to_thread(_Documentation, operations, settings)
            return made

    async def respond(request: Request[Any, Any, Any], pages: AddressedPages, default: str, media_type: str) -> Response[bytes]:
        found = await pages.page(server_address(request, settings.trusted_proxies.parsed, default))
        is_compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {
            **new_request_headers(),
            "etag": f'"{found.etag}-gzip"' if is_compressed else f'"{found.etag}"',  # of these bytes: RFC 9110, section 8.8.3
            "cache-control": "no-cache",
            "vary": "accept-encoding, host, x-forwarded-proto",
        }
        if media_type == _HTML:
            headers["content-security-policy"] = _POLICY
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

    return Router("/", route_handlers=[docs, openapi])
