"""What goes wrong outside the inference routes: unknown routes, wrong methods, admin requests, our own faults.

In OpenAI's envelope, or in Anthropic's for a client of theirs.
"""

import logging
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from app import uuid7
from app.api.replies import error_headers, request_headers
from app.store.away import AWAY
from providers.dialects.catalogue import DIALECTS
from providers.errors import Malformed, NarthexError, Unavailable, UnknownRoute, WrongMethod
from providers.told import masked

log = logging.getLogger(__name__)


def _answer(request: Request[Any, Any, Any], error: NarthexError) -> Response[bytes]:
    headers = {name.decode(): value.decode() for name, value in [*error_headers(error), *request_headers(uuid7.mint())]}
    theirs = "anthropic_messages" if is_anthropics(request) else "openai_chat"
    return Response(DIALECTS[theirs].write_error(error), status_code=error.status, media_type="application/json", headers=headers)


def is_anthropics(request: Request[Any, Any, Any]) -> bool:
    """Whether a client of Anthropic's API asks: it says which version of it."""
    return "anthropic-version" in request.headers or request.url.path.startswith("/v1/messages")


def _ours(request: Request[Any, Any, Any], error: NarthexError) -> Response[bytes]:
    return _answer(request, error)


def _unknown_route(request: Request[Any, Any, Any], _: NotFoundException) -> Response[bytes]:
    return _answer(request, UnknownRoute(f"There is nothing at {request.method} {request.url.path}. The routes are told at /docs."))


def _wrong_method(request: Request[Any, Any, Any], fault: MethodNotAllowedException) -> Response[bytes]:
    allowed = (fault.headers or {}).get("Allow", "") or (fault.headers or {}).get("allow", "")
    return _answer(request, WrongMethod(f"{request.method} is not for {request.url.path}{f': {allowed} is' if allowed else ''}.", allowed))


def _litestars(request: Request[Any, Any, Any], fault: HTTPException) -> Response[bytes]:
    if fault.status_code == 400:
        return _answer(request, Malformed(f"{fault.detail}{f' {fault.extra}' if fault.extra else ''}"))
    error = Malformed(fault.detail) if fault.status_code < 500 else NarthexError(fault.detail)
    error.status = fault.status_code
    return _answer(request, error)


def _bug(request: Request[Any, Any, Any], fault: Exception) -> Response[bytes]:
    log.error("a request failed in us", exc_info=fault, extra={"path": masked(request.url.path)})
    return _answer(request, NarthexError("Something went wrong in the gateway; its log has more."))


def _away(request: Request[Any, Any, Any], fault: Exception) -> Response[bytes]:
    log.warning("the database could not be asked", extra={"fault": repr(fault)})
    return _answer(request, Unavailable("The gateway's database cannot be asked at the moment.", retry_after_s=2))


HANDLERS: dict[int | type[Exception], Any] = {
    NarthexError: _ours,
    NotFoundException: _unknown_route,
    MethodNotAllowedException: _wrong_method,
    HTTPException: _litestars,
    **{kind: _away for kind in AWAY},
    Exception: _bug,
}
