"""Errors of Google's hosts: {error: {code, message, status, details}}, at times in an array of one.

Sources: https://ai.google.dev/gemini-api/docs/troubleshooting, .../rate-limits, google.rpc.QuotaFailure, read 2026-11; recordings
google_ai_studio/22, 24, gcp_vertex_gemini/18; https://github.com/pydantic/pydantic-ai cassettes for the 403 of a missing cache.
"""

import time
from collections.abc import Mapping

from providers.canonical.errors import CredentialRefused, Overloaded, QuotaExhausted, UpstreamError, UpstreamNotFound
from providers.canonical.reclassify_error import reclassify
from providers.canonical.upstream_errors import read_error

_DAY_S = 86_400
# Daily quotas reset at midnight in California, which is this far behind UTC; an hour less in summer.
_PACIFIC_OFFSET_S = 8 * 3600


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
