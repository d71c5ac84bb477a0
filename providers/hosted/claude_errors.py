"""Errors of Anthropic's API, and of Cloudflare, which stands before it.

Sources: https://docs.claude.com/en/api/errors; _should_retry in _base_client.py of its SDK 2.11; of accounts with nothing left, the 400s
quoted in anthropics/claude-code#4684 ("Your credit balance is too low") and by many ("You have reached your specified API usage limits");
read 2026-11.
"""

from collections.abc import Mapping

from providers.errors import CredentialRefused, Exhausted, Failed, Missing, Overloaded, Refused, UpstreamError
from providers.told import read_error

# It says with 400 that nothing is left, and has no other word for it than its sentence.
_SPENT = ("credit balance is too low", "reached your specified api usage limits", "reached your specified workspace api usage limits")


def read_claude_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    error = read_error(status, headers, body)
    told = _told_anew(error, status, headers, body)
    if told is not error:
        told.retry_after_s, told.said_code = error.retry_after_s, error.said_code
    return told


def _told_anew(error: UpstreamError, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """By `x-should-retry` it says of what would be the caller's fault (409, a lock) that it is not; or that no wait helps."""
    again = headers.get("x-should-retry")
    if isinstance(error, CredentialRefused):
        # A page is none of its API's: of the key it tells nothing.
        return Failed("The way to the engine is closed (a page was answered, and no error).", told=status) if _is_page(body) else error
    if isinstance(error, Refused) and not isinstance(error, Missing):
        if any(words in error.message.lower() for words in _SPENT):
            return Exhausted(error.message, told=status)
        return Overloaded(error.message, told=status) if again == "true" else error
    if status == 429 and again == "false" and error.retry_after_s is None and not isinstance(error, Exhausted):
        return Exhausted(error.message, told=status)
    return error


def _is_page(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"
