"""Errors that an engine reports with status 200: an `error` event, a failed Response, or the error envelope of another API."""

from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, UpstreamError
from providers.canonical.raw_json import Body, repair_unicode
from providers.canonical.upstream_errors import UNNAMED_STATUS, find_error, is_error, read_error

# Codes of a failed Response that are caused by the engine and not by the request.
# Source: https://platform.openai.com/docs/api-reference/responses/object, read 2026-11.
_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "vector_store_timeout": 504,
}
_REQUEST_ERROR_CODES = frozenset(
    {
        *("invalid_prompt", "data_residency_mismatch", "bio_policy", "misalignment_policy_violation", "invalid_image"),
        *("invalid_image_format", "invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small"),
        *("image_parse_error", "image_content_policy_violation", "invalid_image_mode", "image_file_too_large"),
        *("unsupported_image_media_type", "empty_image_file", "failed_to_download_image", "image_file_not_found"),
        *("context_length_exceeded", "invalid_request_error"),
    }
)

_CONTENT_FIELDS = frozenset({"delta", "text", "item", "part", "response", "output"})

_STATUS_PHRASES = {"failed": "failed", "cancelled": "was cancelled"}


def find_response_error(body: Mapping[str, Any]) -> UpstreamError | None:
    """The error of a Response, or of an event without one; None if there is no error."""
    error = body.get("error")
    if is_error(error):
        return read_error_object(_error_object(error))
    envelope_error = find_error(body)
    if envelope_error is not None:
        return envelope_error
    for status in ("failed", "cancelled"):
        if body.get("status") == msgspec.Raw(b'"%b"' % status.encode()):
            return read_error_object({"message": f"The engine's answer {_STATUS_PHRASES[status]}, and it gives no reason."})
    return None


def check_untyped_event(data: bytes) -> None:
    """Passes for an object that is no event, such as a ping. Raises the error that it holds, or InvalidUpstreamResponse for content."""
    body = Body.read_response(data)
    error = find_response_error(body)
    if error is not None:
        raise error
    if not _CONTENT_FIELDS.isdisjoint(body):
        raise InvalidUpstreamResponse(f"The engine's event has no type: {data[:100]!r}.")


def read_error_object(error: Mapping[str, Any]) -> UpstreamError:
    """The error for an error object with `message`, `code` and `param`, each of which may be missing."""
    code = error.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int):
        status = code if 400 <= code < 600 else UNNAMED_STATUS
    else:
        is_request_error = code in _REQUEST_ERROR_CODES or error.get("type") == "invalid_request_error"
        status = _STATUSES.get(str(code), 400 if is_request_error else UNNAMED_STATUS)
    return read_error(status, {}, msgspec.json.encode({"error": error}))


def read_failure_event(data: bytes) -> UpstreamError:
    """The error of an `error` event, flat or in an object of its own, or of a failed Response."""
    body = Body.read_response(data)
    inner = Body.read_response(bytes(body["response"])) if body.has_value("response") else body
    return find_response_error(inner) or read_error_object(
        {key: body.value(key) for key in ("message", "code", "param") if body.has_value(key)}
    )


def write_response_error(error: NarthexError) -> dict[str, Any]:
    """The `error` of a failed Response: its codes are a closed list, by which Codex decides whether to try again."""
    code = error.code or (error.upstream_code if isinstance(error, UpstreamError) else None)
    if code not in _STATUSES and code not in _REQUEST_ERROR_CODES:
        if error.status == 429:
            code = "rate_limit_exceeded"
        else:
            code = "invalid_prompt" if 400 <= error.status < 500 else "server_error"
    return {"code": code, "message": error.message}


def _error_object(raw: Any) -> Mapping[str, Any]:
    error = msgspec.json.decode(repair_unicode(bytes(raw))) if isinstance(raw, msgspec.Raw) else raw
    return error if isinstance(error, dict) else {"message": error if isinstance(error, str) else ""}  # pyright: ignore[reportUnknownVariableType]
