"""Requests without a credential, to routes other than inferences: one begins at each turn of the event loop, and not too many wait.

Pages that everybody may read look at no credential, so sending one passes nobody before others there.

Between them everybody else is served. A limit of those in progress would be one for an attacker to use up, by reading slowly.
"""

from litestar.types import ASGIApp, Receive, Scope, Send

from app.api.server.http_call import Header
from app.api.server.response_headers import error_headers, request_headers
from app.domain import uuid7
from providers.canonical.errors import Unavailable
from providers.catalogue import DIALECTS
from providers.transport.loop_turns import LoopTurns

_MAX_WAITING = 1_000
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key", b"cookie"})
# What load balancers and TensorZero's clients ask; an overloaded gateway must not look like a dead one.
_HEALTH_PATHS = ("/health", "/status")
_PUBLIC_PATHS = ("/docs", "/openapi.json", "/dashboard")


class AnonymousRequests:
    """ASGI: lets anonymous requests wait for their turn."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turns = LoopTurns(pieces_a_turn=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _waits_for_turn(scope["path"], scope["headers"]):
            if self._turns.waiting >= _MAX_WAITING:
                await _refuse(send)
                return
            await self._turns.wait()
        await self._app(scope, receive, send)


def _waits_for_turn(path: str, headers: list[Header]) -> bool:
    return not path.startswith(_HEALTH_PATHS) and (path.startswith(_PUBLIC_PATHS) or is_anonymous(headers))


def is_anonymous(headers: list[Header]) -> bool:
    return not any(name in _CREDENTIALS for name, _ in headers)


async def _refuse(send: Send) -> None:
    error = Unavailable("Too many requests without a key are waiting: try again.", retry_after_s=1)
    body = DIALECTS["openai_chat"].write_error(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [*error_headers(error), *request_headers(uuid7.mint())]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
