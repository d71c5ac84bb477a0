"""X-Request-Id: the id that a caller, or a proxy in front of the gateway, has given a request. It is taken over where it is safe text."""

import re
from collections.abc import Iterable

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from app.api.server.http_call import Header
from app.domain import uuid7
from app.process import logs
from app.process.logs import RequestIds

HEADER = b"x-request-id"
_HEADERS = (HEADER, b"request-id")
# Safe in a header, a log and a shell; and no credential by what it begins with, as the id is shown and recorded.
_SAFE = re.compile(rb"(?!.*(?:(?<![A-Za-z0-9])(?:sk|pk|rk|nx[bcs]?|gsk|xai|hf|gh[pousr])[-_]|AKIA|AIza))[A-Za-z0-9._:/@+=~-]{1,128}")


def own_request_id(value: bytes | None) -> str | None:
    """The caller's id; None: it sends none, or one that is too long, holds other characters, or begins like a credential."""
    return None if value is None or _SAFE.fullmatch(value) is None else value.decode("ascii")


def request_id_of(scope: Scope) -> str:
    """The id of a request to one of the routes other than inferences."""
    return scope["state"].get("request_id") or uuid7.mint()


class RequestIdApp:
    """ASGI: takes it over for the routes other than inferences: in the response's headers, and in the lines that the request logs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id = own_request_id(_only_value(scope["headers"]))
        ids = RequestIds(None, uuid7.mint() if id is None else id, None)
        scope["state"]["request_id"] = ids.request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                value = ids.request_id.encode("ascii")
                headers = [(name, value if name in _HEADERS else each) for name, each in message["headers"]]
                message["headers"] = headers
            await send(message)

        logs.current_request.set(ids)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            ids.is_over = True


def _only_value(headers: Iterable[Header]) -> bytes | None:
    """Returns the header's value, or None if it is missing or sent several times.

    Of several values it is not known which one the caller knows the request by.
    """
    values = [value for name, value in headers if name == HEADER]
    return values[0] if len(values) == 1 else None
