"""Errors of Google's, as AI Studio and Vertex tell them: {error: {code, message, status, details}}, at times in an array of one.

Sources: https://ai.google.dev/gemini-api/docs/troubleshooting, .../rate-limits, google.rpc.QuotaFailure, read 2026-11; recordings
google_ai_studio/22, 24, gcp_vertex_gemini/18; https://github.com/pydantic/pydantic-ai cassettes for 403 of a cache that is gone.
"""

import time
from collections.abc import Mapping

from providers.errors import CredentialRefused, Exhausted, Missing, Overloaded, UpstreamError
from providers.told import read_error

_DAY_S = 86_400
# Quotas by the day begin anew at midnight of California, which is this much behind UTC; in summer an hour less.
_BEHIND_S = 8 * 3600


def read_google_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    error = read_error(status, headers, body)
    if isinstance(error, CredentialRefused) and b"achedContent" in body:
        return _as(Missing(error.reason, told=404), error)  # said with 403, of a cache that is gone or another's
    if isinstance(error, Overloaded) and b"PerDay" in body:
        spent = _as(Exhausted(error.message, told=status), error)
        spent.retry_after_s = _DAY_S - (time.time() - _BEHIND_S) % _DAY_S
        return spent
    return error


def _as(error: UpstreamError, told: UpstreamError) -> UpstreamError:
    error.said_code, error.retry_after_s = told.said_code, told.retry_after_s
    return error
