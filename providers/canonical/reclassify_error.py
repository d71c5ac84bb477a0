"""Errors whose status means something else at one host: replaced by another kind, without losing what the host reported."""

from typing import TypeVar

from providers.canonical.errors import Overloaded, UpstreamError

ErrorT = TypeVar("ErrorT", bound=UpstreamError)


def reclassify(error: UpstreamError, replacement: ErrorT) -> ErrorT:
    """Gives `replacement` the host's own error code and retry delay, as read_error() read them."""
    replacement.upstream_code = error.upstream_code
    replacement.retry_after_s = error.retry_after_s
    return replacement


def as_overload(error: UpstreamError) -> Overloaded:
    """The same error as an overload, for a host that reports one with another status."""
    return reclassify(error, Overloaded(error.message, upstream_status=error.upstream_status))
