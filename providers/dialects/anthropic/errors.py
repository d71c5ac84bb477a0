"""Anthropic's error envelope, read and written, for its dialects.

Source: https://docs.claude.com/en/api/errors, read 2026-11.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical.errors import LimitExceeded, NarthexError, Overloaded, QuotaExhausted, UpstreamError
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.refusal_reasons import refusal_reason
from providers.canonical.upstream_errors import find_error, read_error

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUSES = {kind: status for status, kind in _TYPES.items()} | {"overloaded_error": 529, "api_error": 500}


class _Error(msgspec.Struct):
    type: str = ""


# Claude Code 2.1.332 compacts a conversation when an error has one of these in any case (read 2026-11).
_TOO_LONG = re.compile(r"prompt is too long|input is too long", re.IGNORECASE)

_error_decoder = msgspec.json.Decoder(_Error)


def write_error(error: NarthexError) -> bytes:
    """The error as a body. `code`, `param` and `details` are our additions: Anthropic's clients keep unknown fields."""
    fields: dict[str, Any] = {"type": _error_type(error), "message": _message(error)}
    if error.code is not None:
        fields["code"] = error.code
    if error.param is not None:
        fields["param"] = error.param
    if error.details:
        fields["details"] = error.details
    return msgspec.json.encode({"type": "error", "error": fields})


def _error_type(error: NarthexError) -> str:
    """Returns the type for the error's status; a budget of the caller's is no rate limit, and an exhausted account of ours is neither that
    nor an overload.

    A host's 429 is a rate limit, though not the caller's own: LiteLLM raises a server error wherever it reads "overloaded_error"
    (litellm_core_utils/exception_mapping_utils.py, read 2026-11).
    """
    match error:
        case QuotaExhausted():
            return "api_error"
        case LimitExceeded() if error.budget_period is not None and error.status == 429:
            return "billing_error"
        case Overloaded() if error.status != 429:
            return "overloaded_error"
        case _:
            return _TYPES.get(error.status) or ("api_error" if error.status >= 500 else "invalid_request_error")


def _message(error: NarthexError) -> str:
    """Returns the error's message; of a prompt that does not fit with the words by which Claude Code knows that it has to compact."""
    if isinstance(error, UpstreamError) and not _TOO_LONG.search(error.message) and refusal_reason(error) == "context_length":
        return f"prompt is too long: {error.message}"
    return error.message


def write_error_frame(error: NarthexError) -> bytes:
    return b"event: error\ndata: " + write_error(error) + b"\n\n"


def find_anthropic_error(body: Mapping[str, Any]) -> UpstreamError | None:
    """The error in a response with status 200, or in an event of a stream. None if there is none."""
    error = body.get("error", NULL)
    if error == NULL:
        return find_error(body)
    try:
        status = _STATUSES.get(_error_decoder.decode(error).type)
    except DECODE_ERRORS:
        status = None
    return find_error(body) if status is None else read_error(status, {}, msgspec.json.encode(body))
