"""Headers of responses: request ids, errors, and both as Litestar takes them."""

import math
from collections.abc import Iterable

from app.api.server.anthropic_ratelimits import refused_budget_headers, to_anthropic_headers
from app.api.server.http_call import Header
from app.domain import uuid7
from providers.canonical.errors import (
    CallerCredentialRequired,
    LimitExceeded,
    MethodNotAllowed,
    NarthexError,
    OperationNotSupported,
    QuotaExhausted,
    UnsupportedMediaType,
)


def new_request_headers() -> dict[str, str]:
    """The headers of a new request id: official SDKs show them to their users."""
    return to_litestar_headers(request_headers(uuid7.mint()))


def to_litestar_headers(headers: Iterable[Header]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


def request_headers(id: str) -> list[Header]:
    """SDKs show x-request-id (OpenAI's) and request-id (Anthropic's) to their users."""
    value = id.encode("ascii")
    return [(b"x-request-id", value), (b"request-id", value)]


def error_headers(error: NarthexError, *, anthropic: bool = False) -> list[Header]:
    """Returns headers that say when to try again, which methods are allowed, and what is left of limits.

    `anthropic` gives the rate-limit headers Anthropic's names.
    """
    headers: list[Header] = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after_s)))
    if isinstance(error, QuotaExhausted) or (anthropic and isinstance(error, CallerCredentialRequired | OperationNotSupported)):
        # A quota stays exhausted. The official SDKs obey this header: _base_client.py of openai 3.52 and anthropic 2.11, read 2026-11.
        # Claude Code would try a wrong key for three minutes, and a count that nobody makes twice (see app.gateway.request.agents).
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode("latin-1")))
    if isinstance(error, UnsupportedMediaType):  # https://www.rfc-editor.org/rfc/rfc9110#section-15.5.16, read 2026-11
        headers.append((b"accept-encoding", error.accepted.encode("latin-1")))
    if isinstance(error, LimitExceeded):
        headers += [*to_anthropic_headers(error.headers), *refused_budget_headers(error)] if anthropic else error.headers
    return headers
