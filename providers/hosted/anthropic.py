"""Anthropic's own API: Claude models."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.chat import ChatRequest
from providers.dialect import Concessions
from providers.errors import UpstreamError
from providers.guided import Constraint, Output
from providers.hosted import claude
from providers.hosted.claude_errors import read_claude_error
from providers.hosted.claude_rules import bend_claude_chat, is_held
from providers.provider import Bent, Provider
from providers.wire import Body


class Anthropic(Provider):
    """It demands `max_tokens`, which other dialects let callers leave out: what is filled in for them is an option."""

    name: ClassVar[str] = "anthropic"
    dialects: ClassVar[tuple[str, ...]] = ("anthropic_messages", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = "https://api.anthropic.com"
    tells_allowance: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **claude.OPTIONS,
        "anthropic_version": "the header anthropic-version (2023-06-01)",
    }

    guided_in = frozenset({"anthropic_messages"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._demands = claude.read_demands(configured_as, options)
        self._headers = [("anthropic-version", str(options.get("anthropic_version", "2023-06-01")))]
        if self._demands.betas:
            self._headers.append(("anthropic-beta", ",".join(self._demands.betas)))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [("x-api-key", credential), *self._headers] if credential else list(self._headers)

    def tell_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """Those that are not asked for anyway."""
        known = {beta.encode() for beta in self._demands.betas}
        return b",".join([name for beta in betas.split(b",") if (name := beta.strip()) and name not in known])

    def _is_held(self, output: Output) -> bool:
        return is_held(output)

    def bend_chat(self, chat: ChatRequest, dialect: str, concessions: Concessions) -> ChatRequest:
        return bend_claude_chat(chat, concessions)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            bent.dropped += claude.hold(body, self._demands)
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_claude_error(status, headers, body)
