"""Errors outside the inference routes: unknown routes, wrong methods, admin requests, bugs of the gateway.

The response has OpenAI's envelope, or Anthropic's, Google's or TensorZero's for clients of these APIs.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from app.api.callers.refused_requests import RefusedRequests
from app.api.server.meant_path import meant_path
from app.api.server.response_headers import error_headers, new_request_headers, to_litestar_headers
from app.domain.model_address import GOOGLE_PATHS, METHODS
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import InvalidRequest, MethodNotAllowed, NarthexError, OperationNotSupported, Unavailable, UnknownRoute
from providers.catalogue import DIALECTS

log = logging.getLogger(__name__)

_NOT_OFFERED_OF_GOOGLE = {
    "files": "Files cannot be uploaded here: send them in the request, as `inlineData`, or name them by a URL in `fileData`.",
    "cachedContents": "Contents cannot be cached here by a call of their own: hosts cache the beginnings of prompts by themselves.",
    "interactions": "Interactions are not offered here: send the conversation to :generateContent.",
}
_TENSORZERO_PATHS = frozenset({"/inference", "/batch_inference", "/feedback"})


def _respond(request: Request[Any, Any, Any], error: NarthexError, *, is_mistyped: bool = False) -> Response[bytes]:
    """Writes the error in the shape of the client's API.

    `is_mistyped` says that there is a path like the one that was requested.
    """
    refused_requests: RefusedRequests | None = request.app.state.get("refused_requests")
    if refused_requests is not None:
        refused_requests.add(request.scope, error, is_mistyped=is_mistyped)
    headers = {**to_litestar_headers(error_headers(error)), **new_request_headers()}
    dialect_name = "openai_chat"
    if is_anthropic_client(request):
        dialect_name = "anthropic_messages"
    elif is_google_client(request):
        dialect_name = "gemini"
    elif is_tensorzero_client(request):
        dialect_name = "tensorzero_inference"
    return Response(DIALECTS[dialect_name].write_error(error), status_code=error.status, media_type="application/json", headers=headers)


def is_anthropic_client(request: Request[Any, Any, Any]) -> bool:
    """Whether the request comes from a client of Anthropic's API: these send its version."""
    return "anthropic-version" in request.headers or request.url.path.startswith("/v1/messages")


def is_google_client(request: Request[Any, Any, Any]) -> bool:
    """Whether the request comes from a client of Google's API: by its path, or by the place of its key."""
    path = request.url.path
    return path.startswith(GOOGLE_PATHS) or "x-goog-api-key" in request.headers or (path == "/v1/models" and "key=" in request.url.query)


def is_tensorzero_client(request: Request[Any, Any, Any]) -> bool:
    """Whether the request comes from TensorZero's client, which also calls routes that are not here, to its native API."""
    is_client = request.headers.get("user-agent", "").startswith("TensorZero/")
    return request.url.path in _TENSORZERO_PATHS or (is_client and not request.url.path.startswith("/openai/"))


def _handle_narthex_error(request: Request[Any, Any, Any], error: NarthexError) -> Response[bytes]:
    return _respond(request, error)


def _handle_unknown_route(request: Request[Any, Any, Any], _: NotFoundException) -> Response[bytes]:
    if (refusal := _google_refusal(request)) is not None:
        return _respond(request, refusal)
    raw_path: bytes = request.scope["raw_path"]  # Litestar has taken a slash at the end off the other one
    served: frozenset[str] = request.app.state.get("paths", frozenset())
    meant = meant_path(raw_path.decode("latin-1"), served)
    advice = f" The path is {meant}." if meant else " /docs lists the routes." if "/docs" in served else ""
    return _respond(
        request,
        UnknownRoute(f"There is nothing at {request.method} {mask_credentials(request.url.path)}.{advice}"),
        is_mistyped=meant is not None,
    )


def _google_refusal(request: Request[Any, Any, Any]) -> OperationNotSupported | None:
    """The refusal of what Google's API has and this gateway does not offer, by its name; None: it is something else."""
    if not request.url.path.startswith(GOOGLE_PATHS):
        return None
    for part in request.url.path.split("/"):
        if part in _NOT_OFFERED_OF_GOOGLE:
            return OperationNotSupported(_NOT_OFFERED_OF_GOOGLE[part])
        if request.method == "POST" and ":" in part:
            return OperationNotSupported(f"Models have no such method here. They have: {', '.join(METHODS)}.")
    return None


def _handle_wrong_method(request: Request[Any, Any, Any], fault: MethodNotAllowedException) -> Response[bytes]:
    if (refusal := _google_refusal(request)) is not None:
        return _respond(request, refusal)
    allowed = (fault.headers or {}).get("Allow", "") or (fault.headers or {}).get("allow", "")
    return _respond(request, MethodNotAllowed(request.method, mask_credentials(request.url.path), allowed))


def _handle_http_exception(request: Request[Any, Any, Any], fault: HTTPException) -> Response[bytes]:
    if fault.status_code == 400:
        return _respond(request, _invalid_request(request, fault))
    error = InvalidRequest(fault.detail) if fault.status_code < 500 else NarthexError(fault.detail)
    error.status = fault.status_code
    return _respond(request, error)


def _invalid_request(request: Request[Any, Any, Any], fault: HTTPException) -> InvalidRequest:
    """The parameters that Litestar could not read, by name."""
    extra = cast("list[Mapping[str, Any]]", fault.extra) if isinstance(fault.extra, list) else []
    problems = [each for each in extra if "key" in each and "message" in each]
    if not problems:
        return InvalidRequest(fault.detail)
    sentences: list[str] = []
    for each in problems:
        is_empty = request.query_params.get(each["key"]) == ""
        reason = "it is empty: give it a value, or leave it out" if is_empty else each["message"]
        sentences.append(f"`{each['key']}`: {reason}.")
    return InvalidRequest(" ".join(sentences), param=problems[0]["key"])


def _handle_bug(request: Request[Any, Any, Any], fault: Exception) -> Response[bytes]:
    log.error("unhandled error in a request", exc_info=fault, extra={"path": mask_credentials(request.url.path)})
    return _respond(request, NarthexError("Something went wrong in the gateway; its log has more."))


def _handle_database_error(request: Request[Any, Any, Any], fault: Exception) -> Response[bytes]:
    log.warning("the database is unavailable", extra={"fault": repr(fault)})
    return _respond(request, Unavailable("The gateway's database is unavailable at the moment.", retry_after_s=2))


HANDLERS: dict[int | type[Exception], Any] = {
    NarthexError: _handle_narthex_error,
    NotFoundException: _handle_unknown_route,
    MethodNotAllowedException: _handle_wrong_method,
    HTTPException: _handle_http_exception,
    **{kind: _handle_database_error for kind in DB_UNAVAILABLE_ERRORS},
    Exception: _handle_bug,
}
