"""Anthropic's own API: Claude models."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.adapters.provider import Adapted, Provider
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import UpstreamError
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.profiles.claude import request_body
from providers.profiles.claude.adapt_chat import adapt_claude_chat, is_enforced
from providers.profiles.claude.errors import read_claude_error
from providers.structured_output import Constraint, OutputFormat


class Anthropic(Provider):
    """It demands `max_tokens`, which other dialects let callers leave out: what is filled in for them is an option."""

    name: ClassVar[str] = "anthropic"
    dialects: ClassVar[tuple[str, ...]] = ("anthropic_messages", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = "https://api.anthropic.com"
    reports_rate_limits: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **request_body.CLAUDE_OPTIONS,
        "anthropic_version": "the header anthropic-version (2023-06-01)",
    }

    constrained_dialects = frozenset({"anthropic_messages"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._defaults = request_body.read_defaults(configured_as, options)
        self._headers = [("anthropic-version", str(options.get("anthropic_version", "2023-06-01")))]
        if self._defaults.betas:
            self._headers.append(("anthropic-beta", ",".join(self._defaults.betas)))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [("x-api-key", credential), *self._headers] if credential else list(self._headers)

    def forward_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """Those that are not asked for anyway."""
        known = {beta.encode() for beta in self._defaults.betas}
        return b",".join([name for beta in betas.split(b",") if (name := beta.strip()) and name not in known])

    def _is_enforced(self, output: OutputFormat) -> bool:
        return is_enforced(output)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        return adapt_claude_chat(chat, drop_policy)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            adapted.dropped += request_body.adapt_body(body, self._defaults)
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_claude_error(status, headers, body)
