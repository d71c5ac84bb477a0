"""The page that a browser shows if signing in fails. Programs get the error as JSON."""

import base64
import hashlib
import html
from typing import Any

from litestar import Request, Response

from app.api.callers.exception_handlers import HANDLERS
from app.api.server.response_headers import error_headers, new_request_headers, to_litestar_headers
from providers.canonical.errors import NarthexError

_STYLE = "body{font:16px/1.55 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}:root{color-scheme:light dark}"
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; img-src data:;"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def handle_error(request: Request[Any, Any, Any], error: NarthexError) -> Response[bytes]:
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return HANDLERS[NarthexError](request, error)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Narthex: sign-in</title><link rel="icon" href="data:,"><style>{_STYLE}</style><main><h1>You are not signed in</h1>'
        f'<p>{html.escape(error.message)}</p><p><a href="/admin/v1/sign-in">Sign in again</a></p></main>'
    )
    headers = {**to_litestar_headers(error_headers(error)), **new_request_headers()}
    headers |= {"content-security-policy": _POLICY, "cache-control": "no-store"}
    return Response(page.encode(), status_code=error.status, media_type="text/html", headers=headers)
