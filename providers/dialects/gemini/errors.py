"""Errors of Google's hosts, read and written: {error: {code, message, status, details}}, at times in an array of one.

Sources: https://ai.google.dev/gemini-api/docs/troubleshooting, .../rate-limits, google.rpc.Code, google.rpc.QuotaFailure,
google.rpc.ErrorInfo, read 2026-11; recordings google_ai_studio/22, 24, gcp_vertex_gemini/18; https://github.com/pydantic/pydantic-ai
cassettes for the 403 of a missing cache.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical.errors import CredentialRefused, NarthexError, Overloaded, QuotaExhausted, UpstreamError, UpstreamNotFound
from providers.canonical.reclassify_error import reclassify
from providers.canonical.sse import sse_frame, to_single_line
from providers.canonical.upstream_errors import read_error

_DAY_S = 86_400
# Daily quotas reset at midnight in California, which is this far behind UTC; an hour less in summer.
_PACIFIC_OFFSET_S = 8 * 3600
_STATUSES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TYPE = "type.googleapis.com/google.rpc."


def write_error(error: NarthexError) -> bytes:
    """The error as a body. Its details say what programs read: a reason, the field at fault, and when to try again."""
    status = _STATUSES.get(error.status) or ("INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT")
    fields = {"code": error.status, "message": error.message, "status": status, "details": _details(error)}
    return msgspec.json.encode({"error": fields})


def write_error_frame(error: NarthexError) -> bytes:
    return sse_frame(to_single_line(write_error(error)))


def _details(error: NarthexError) -> list[dict[str, Any]]:
    metadata = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in (error.details or {}).items()
    }
    reason = (error.code or error.kind).upper()
    details: list[dict[str, Any]] = [{"@type": f"{_TYPE}ErrorInfo", "reason": reason, "domain": "narthex", "metadata": metadata}]
    if error.param is not None:
        violation = {"field": error.param, "description": error.message}
        details.append({"@type": f"{_TYPE}BadRequest", "fieldViolations": [violation]})
    if error.retry_after_s is not None:
        details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{error.retry_after_s:.3f}".rstrip("0").rstrip(".") + "s"})
    return details


def read_google_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    error = read_error(status, headers, body)
    # A cache that expired, or belongs to another project, is reported with 403.
    if isinstance(error, CredentialRefused) and b"achedContent" in body:
        return reclassify(error, UpstreamNotFound(error.reason, upstream_status=404))
    if isinstance(error, Overloaded) and b"PerDay" in body:
        quota_error = reclassify(error, QuotaExhausted(error.message, upstream_status=status))
        quota_error.retry_after_s = _DAY_S - (time.time() - _PACIFIC_OFFSET_S) % _DAY_S
        return quota_error
    return error
