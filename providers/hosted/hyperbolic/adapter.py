"""Hyperbolic: chat only. None of its traffic has been recorded."""

from collections.abc import Mapping
from typing import Any, ClassVar

from providers import structured_output
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.hosted.host_spec_provider import HostSpecProvider

_TOOL_FIELDS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})


class Hyperbolic(HostSpecProvider, host="hyperbolic"):
    """Tools and response_format are off until the operator enables them: sources disagree on them (docs/sources.md#hyperbolic)."""

    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "tools": "true: send tools to its models (unverified; otherwise the prompt describes them)",
        "response_format": "true: send response_format (unverified; responses are validated)",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._takes_response_format = _read_bool_option(options, "response_format")
        if _read_bool_option(options, "tools"):
            self.unsupported_fields = self.unsupported_fields - _TOOL_FIELDS

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return super().constraint_support if self._takes_response_format else {}


def _read_bool_option(options: Mapping[str, Any], option: str) -> bool:
    value = options.get(option, False)
    if not isinstance(value, bool):
        raise InvalidOption(f"Option {option} must be true or false.")
    return value
