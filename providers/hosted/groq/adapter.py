"""Groq: a row of hosts.toml, and its own error status."""

from collections.abc import Mapping

from providers.canonical.errors import UpstreamError
from providers.canonical.reclassify_error import as_overload
from providers.hosted.host_spec_provider import HostSpecProvider


class Groq(HostSpecProvider, host="groq"):
    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """498: the flex tier has no capacity at the moment. Source: https://console.groq.com/docs/errors, read 2026-11."""
        error = super().read_error(status, headers, body)
        return as_overload(error) if status == 498 else error
