"""Headers that tell browsers to be careful with answers of the admin API and with pages.

No Strict-Transport-Security: for which names and how long TLS is promised is the operator's to know; a proxy in front can add it.
docs/operations.md says so to operators.
"""

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from app.api.server.http_call import Header

_HEADERS: list[Header] = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),  # for browsers older than frame-ancestors
]
# A page may set a policy of its own, which names its scripts.
_PAGE: list[Header] = [*_HEADERS, (b"content-security-policy", b"frame-ancestors 'none'; base-uri 'none'; object-src 'none'")]
_ADMIN: list[Header] = [
    *_HEADERS,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
]


class SecurityHeaders:
    """ASGI: adds them where the response does not set them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_admin = scope["path"].startswith("/admin/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = {name.lower(): value for name, value in message["headers"]}
                is_page = headers.get(b"content-type", b"").startswith(b"text/html")
                added = _PAGE if is_page else _ADMIN if is_admin else []
                message["headers"] = [*message["headers"], *(header for header in added if header[0] not in headers)]
            await send(message)

        await self._app(scope, receive, send_with_headers)
