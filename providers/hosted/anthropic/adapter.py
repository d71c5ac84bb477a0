"""Anthropic's own API: Claude models."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Adapted, Provider
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import UpstreamError
from providers.canonical.output_format import OutputFormat
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.hosted.anthropic.errors import read_anthropic_error
from providers.hosted.rules.claude_options import CLAUDE_OPTIONS, read_defaults
from providers.profiles.claude import request_body
from providers.profiles.claude.adapt_chat import adapt_claude_chat, is_enforced
from providers.profiles.claude.models import continues_text
from providers.structured_output import Constraint


class Anthropic(OpenAICompatible):
    """Anthropic requires `max_tokens`, which is optional in other dialects: the option `max_tokens` is the default for those callers."""

    name: ClassVar[str] = "anthropic"
    restricted_fields: Mapping[str, str] = {}
    dialects: ClassVar[tuple[str, ...]] = ("anthropic_messages", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = "https://api.anthropic.com"
    reports_rate_limits: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **CLAUDE_OPTIONS,
        "anthropic_version": "the header anthropic-version (2023-06-01)",
    }

    constrained_dialects = frozenset({"anthropic_messages"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._defaults = read_defaults(options)
        self._headers = [("anthropic-version", str(options.get("anthropic_version", "2023-06-01")))]
        if self._defaults.betas:
            self._headers.append(("anthropic-beta", ",".join(self._defaults.betas)))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [("x-api-key", credential), *self._headers] if credential else list(self._headers)

    def forward_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """The caller's betas without those that the configuration sends with every request."""
        configured = {beta.encode() for beta in self._defaults.betas}
        return b",".join([name for beta in betas.split(b",") if (name := beta.strip()) and name not in configured])

    def _is_enforced(self, output: OutputFormat) -> bool:
        return is_enforced(output)

    def continues_text(self, dialect: str, model: str) -> bool:
        return continues_text(dialect, model)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        return adapt_claude_chat(chat, drop_policy)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            adapted.dropped += request_body.adapt_body(body, self._defaults)
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_anthropic_error(status, headers, body)
