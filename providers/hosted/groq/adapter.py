"""Groq: what its own words for errors mean, beyond those that all hosts share."""

from collections.abc import Mapping

from providers.canonical.errors import Overloaded, UpstreamError
from providers.hosted.rules.host_spec_provider import HostSpecProvider


class Groq(HostSpecProvider, host="groq"):
    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """498: no capacity for the flex tier just now. Source: https://console.groq.com/docs/errors, read 2026-11."""
        error = super().read_error(status, headers, body)
        if status != 498:
            return error
        overloaded = Overloaded(error.message, upstream_status=status, retry_after_s=error.retry_after_s)
        overloaded.upstream_code = error.upstream_code
        return overloaded
