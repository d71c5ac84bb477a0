"""Errors of Anthropic's API, and of Cloudflare in front of it.

Sources: https://docs.claude.com/en/api/errors; _should_retry in _base_client.py of its SDK 2.11; for exhausted accounts the 400s quoted in
anthropics/claude-code#4684 ("Your credit balance is too low") and elsewhere ("You have reached your specified API usage limits"); read
2026-11.
"""

from collections.abc import Mapping

from providers.canonical.errors import (
    CredentialRefused,
    Overloaded,
    QuotaExhausted,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.reclassify_error import reclassify
from providers.canonical.upstream_errors import read_error

# An exhausted account is a 400 that only its message tells from other 400s.
_QUOTA_EXHAUSTED_PHRASES = (
    "credit balance is too low",
    "reached your specified api usage limits",
    "reached your specified workspace api usage limits",
)


def read_anthropic_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error for a response of Anthropic's with this status."""
    error = read_error(status, headers, body)
    return reclassify(error, _classify(error, status, headers, body))


def _classify(error: UpstreamError, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """Makes the error more exact. `x-should-retry: true` marks a 4xx that is not the caller's fault (409, a lock), `false` a 429 that no
    waiting helps.
    """
    should_retry = headers.get("x-should-retry")
    if isinstance(error, CredentialRefused):
        # An HTML page does not come from the API: it says nothing about the key.
        if _is_html(body):
            return UpstreamFailed("The engine cannot be reached: an HTML page was returned, not an API error.", upstream_status=status)
        return error
    if isinstance(error, UpstreamRejected) and not isinstance(error, UpstreamNotFound):
        if any(phrase in error.message.lower() for phrase in _QUOTA_EXHAUSTED_PHRASES):
            return QuotaExhausted(error.message, upstream_status=status)
        return Overloaded(error.message, upstream_status=status) if should_retry == "true" else error
    if status == 429 and should_retry == "false" and error.retry_after_s is None and not isinstance(error, QuotaExhausted):
        return QuotaExhausted(error.message, upstream_status=status)
    return error


def _is_html(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"
