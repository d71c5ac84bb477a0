"""Errors of Anthropic's API, and of Cloudflare, which stands before it.

Sources: https://docs.claude.com/en/api/errors; _should_retry in _base_client.py of its SDK 2.11; of accounts with nothing left, the 400s
quoted in anthropics/claude-code#4684 ("Your credit balance is too low") and by many ("You have reached your specified API usage limits");
read 2026-11.
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
from providers.canonical.upstream_errors import read_error

# It says with 400 that nothing is left, and has no other word for it than its sentence.
_QUOTA_EXHAUSTED_PHRASES = (
    "credit balance is too low",
    "reached your specified api usage limits",
    "reached your specified workspace api usage limits",
)


def read_claude_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    error = read_error(status, headers, body)
    classified = _reclassify(error, status, headers, body)
    if classified is not error:
        classified.retry_after_s, classified.upstream_code = error.retry_after_s, error.upstream_code
    return classified


def _reclassify(error: UpstreamError, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """By `x-should-retry` it says of what would be the caller's fault (409, a lock) that it is not; or that no wait helps."""
    should_retry = headers.get("x-should-retry")
    if isinstance(error, CredentialRefused):
        # A page is none of its API's: of the key it tells nothing.
        return (
            UpstreamFailed("The way to the engine is closed (a page was answered, and no error).", upstream_status=status)
            if _is_html(body)
            else error
        )
    if isinstance(error, UpstreamRejected) and not isinstance(error, UpstreamNotFound):
        if any(phrase in error.message.lower() for phrase in _QUOTA_EXHAUSTED_PHRASES):
            return QuotaExhausted(error.message, upstream_status=status)
        return Overloaded(error.message, upstream_status=status) if should_retry == "true" else error
    if status == 429 and should_retry == "false" and error.retry_after_s is None and not isinstance(error, QuotaExhausted):
        return QuotaExhausted(error.message, upstream_status=status)
    return error


def _is_html(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"
