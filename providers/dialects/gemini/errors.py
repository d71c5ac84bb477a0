"""Errors of Google's, as AI Studio and Vertex tell them: {error: {code, message, status, details}}, at times in an array of one.

Sources: https://ai.google.dev/gemini-api/docs/troubleshooting, .../rate-limits, google.rpc.QuotaFailure, read 2026-11; recordings
google_ai_studio/22, 24, gcp_vertex_gemini/18; https://github.com/pydantic/pydantic-ai cassettes for 403 of a cache that is gone.
"""

import time
from collections.abc import Mapping

from providers.canonical.errors import CredentialRefused, Overloaded, QuotaExhausted, UpstreamError, UpstreamNotFound
from providers.canonical.upstream_errors import read_error

_DAY_S = 86_400
# Quotas by the day begin anew at midnight of California, which is this much behind UTC; in summer an hour less.
_PACIFIC_OFFSET_S = 8 * 3600


def read_google_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    error = read_error(status, headers, body)
    if isinstance(error, CredentialRefused) and b"achedContent" in body:
        return _copy_details(
            UpstreamNotFound(error.reason, upstream_status=404), error
        )  # said with 403, of a cache that is gone or another's
    if isinstance(error, Overloaded) and b"PerDay" in body:
        quota_error = _copy_details(QuotaExhausted(error.message, upstream_status=status), error)
        quota_error.retry_after_s = _DAY_S - (time.time() - _PACIFIC_OFFSET_S) % _DAY_S
        return quota_error
    return error


def _copy_details(error: UpstreamError, original: UpstreamError) -> UpstreamError:
    error.upstream_code, error.retry_after_s = original.upstream_code, original.retry_after_s
    return error
