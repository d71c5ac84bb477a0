"""Hyperbolic: chat alone, of which nothing was ever recorded here."""

from collections.abc import Mapping
from typing import Any, ClassVar

from providers import guided
from providers.hosted.rowed import Rowed
from providers.provider import BadOption, Provider

_OF_TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})


class Hyperbolic(Rowed, row="hyperbolic"):
    """Tools and response_format are off until an operator who has seen them work turns them on (/reference/providers.md part 7)."""

    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "tools": "true: its models call tools (nobody has shown it; without this option tools are refused)",
        "response_format": "true: it obeys response_format (nobody has shown it; replies are looked at)",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._formats = _on(options, "response_format", configured_as)
        if _on(options, "tools", configured_as):
            self.refuses = self.refuses - _OF_TOOLS

    @property
    def guided(self) -> guided.Ways:
        return super().guided if self._formats else {}


def _on(options: Mapping[str, Any], option: str, configured_as: str) -> bool:
    said = options.get(option, False)
    if not isinstance(said, bool):
        raise BadOption(f"Option {option} of provider {configured_as!r} must be true or false.")
    return said
