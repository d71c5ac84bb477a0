"""Responses with built files and with pages that load them: compressed, with an ETag, under a policy that lets nothing else run."""

from collections.abc import Mapping
from typing import Any

from litestar import Request, Response

from app.api.dashboard.static_files import Coding, StaticFile, best_coding
from app.api.server.response_headers import new_request_headers

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
PAGE_HEADERS = {
    **_COMMON,
    "content-security-policy": _POLICY,
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# Names have a hash of the content, so that what was loaded once is never requested again.
STATIC_HEADERS = {**_COMMON, "cache-control": "public, max-age=31536000, immutable"}


def respond_file(request: Request[Any, Any, Any], file: StaticFile, headers: Mapping[str, str]) -> Response[bytes]:
    coding: Coding = best_coding(file, request.headers.get("accept-encoding", ""))
    etag = f'"{file.etag}"' if coding == "identity" else f'"{file.etag}-{coding}"'  # of these bytes: RFC 9110, section 8.8.3
    sent = {**new_request_headers(), **headers, "etag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=sent)
    if coding != "identity":
        sent["content-encoding"] = coding
    return Response(file.content[coding], media_type=file.media_type, headers=sent)
