"""CORS: lets the scripts of chosen web pages use this gateway from a browser (setting `cors_origins`).

It is the outermost layer, so that refusals and streams carry the headers, too: without them a script cannot read even the error.
Where the setting is empty, nothing of this is in the path of a request.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol, read 2026-11.
"""

import re
from collections.abc import Mapping

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from app.api.server.http_call import CallHandler, Header, HttpCall
from app.api.server.response_headers import request_headers
from app.domain import uuid7
from app.settings import Origins
from providers.canonical.errors import NotAllowed
from providers.catalogue import DIALECTS

# Headers of responses that scripts may read. A list, as * does not count where cookies are sent.
EXPOSED_HEADERS = (
    *("x-request-id", "request-id", "retry-after", "x-should-retry", "etag", "location", "allow"),
    *("x-narthex-applied", "x-narthex-not-applied"),
    *("x-narthex-inference-id", "x-narthex-episode-id", "x-narthex-served", "x-narthex-dropped", "x-narthex-emulated"),
    *("x-narthex-variant", "x-narthex-served-variant", "x-narthex-experiment", "x-narthex-not-enrolled", "x-narthex-cost-usd"),
    *(
        "x-narthex-guided",
        "x-narthex-reported-model",
        "x-narthex-finish-reason",
        "x-narthex-candidates",
        "x-narthex-replayed",
        "idempotent-replayed",
    ),
    *(f"x-ratelimit-{aspect}-{resource}" for aspect in ("limit", "remaining", "reset") for resource in ("requests", "tokens")),
    *(f"anthropic-ratelimit-{resource}-{aspect}" for resource in ("requests", "tokens") for aspect in ("limit", "remaining", "reset")),
)
_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_MAX_AGE_S = 7200  # browsers cap it: Chromium at two hours, Firefox at a day
# Names of headers, as a preflight lists them.
_HEADER_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
# Not for scripts: with `*`, any page that somebody within the network opens could read the metrics.
_CLOSED_SEGMENTS = ("metrics", "nodes", "distserve")


class Cors:
    """The headers for each origin. Credentials, such as the cookie of a proxy's sign-in, are for admin routes and exact origins only."""

    def __init__(self, origins: Origins) -> None:
        self._origins = frozenset(each.encode("ascii") for each in origins.parsed)
        self._is_for_all = "*" in origins.parsed

    def response_headers(self, origin: bytes | None, *, is_admin: bool) -> list[Header]:
        """The headers of a response to a request with this Origin; None: it has none."""
        exposed = (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode())
        if self._is_for_all:
            return [(b"access-control-allow-origin", b"*"), exposed]
        if origin is None or origin not in self._origins:
            return [_VARY_ORIGIN]
        return [*_allow(origin, is_admin=is_admin), exposed, _VARY_ORIGIN]

    def preflight_headers(self, origin: bytes, requested_headers: bytes, *, is_admin: bool) -> list[Header]:
        """The headers of the response to a preflight. Raises NotAllowed for an origin that is not set."""
        if not self._is_for_all and origin not in self._origins:
            raise NotAllowed("Pages of this origin may not use this gateway: NARTHEX_CORS_ORIGINS does not name it.")
        allowed = [(b"access-control-allow-origin", b"*")] if self._is_for_all else _allow(origin, is_admin=is_admin)
        headers = [*allowed, (b"access-control-allow-methods", _METHODS), (b"access-control-max-age", b"%d" % _MAX_AGE_S)]
        # What was asked for: SDKs send headers of their own, and * would not stand for Authorization.
        if _HEADER_NAMES.fullmatch(requested_headers):
            headers.append((b"access-control-allow-headers", requested_headers))
        return [*headers, (b"vary", b"origin, access-control-request-method, access-control-request-headers")]


_VARY_ORIGIN = (b"vary", b"origin")


def _allow(origin: bytes, *, is_admin: bool) -> list[Header]:
    headers = [(b"access-control-allow-origin", origin)]
    return [*headers, (b"access-control-allow-credentials", b"true")] if is_admin else headers


def is_preflight(method: str, headers: Mapping[bytes, bytes]) -> bool:
    return method == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers


class CorsRoute:
    """An inference route with CORS."""

    def __init__(self, route: CallHandler, cors: Cors) -> None:
        self._route = route
        self._cors = cors

    async def __call__(self, call: HttpCall) -> None:
        headers = dict(call.headers)
        if not is_preflight(call.method, headers):
            call.added_fields = _fields(self._cors.response_headers(headers.get(b"origin"), is_admin=False))
            await self._route(call)
            return
        status, response_headers, body = _answer_preflight(self._cors, headers, is_admin=False)
        await call.send_response(status, _fields(response_headers), body)


class CorsApp:
    """ASGI: the other routes with CORS."""

    def __init__(self, app: ASGIApp, cors: Cors) -> None:
        self._app = app
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (first_segment := scope["path"].lstrip("/").partition("/")[0]) in _CLOSED_SEGMENTS:
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        is_admin = first_segment == "admin"
        if is_preflight(scope["method"], headers):
            status, response_headers, body = _answer_preflight(self._cors, headers, is_admin=is_admin)
            response_headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": status, "headers": response_headers})
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
        added = self._cors.response_headers(headers.get(b"origin"), is_admin=is_admin)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _answer_preflight(cors: Cors, headers: Mapping[bytes, bytes], *, is_admin: bool) -> tuple[int, list[Header], bytes]:
    """Status, headers and body."""
    requested_headers = headers.get(b"access-control-request-headers", b"")
    try:
        return 200, cors.preflight_headers(headers[b"origin"], requested_headers, is_admin=is_admin), b""
    except NotAllowed as error:
        ids = request_headers(uuid7.mint())
        return error.status, [(b"content-type", b"application/json"), *ids, _VARY_ORIGIN], DIALECTS["openai_chat"].write_error(error)


def _fields(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
