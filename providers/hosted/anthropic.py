"""Anthropic's own API: Claude models."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.guided import Constraint
from providers.provider import BadOption, Bent, Provider
from providers.wire import Body

# What its older models could write at most, which every newer one can too.
_MAX_TOKENS = 8192


class Anthropic(Provider):
    """It demands `max_tokens`, which other dialects let callers leave out: what is filled in for them is an option."""

    name: ClassVar[str] = "anthropic"
    dialects: ClassVar[tuple[str, ...]] = ("anthropic_messages", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = "https://api.anthropic.com"
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "max_tokens": f"the most tokens of an answer whose caller has not said it, as Anthropic demands it ({_MAX_TOKENS})",
        "anthropic_version": "the header anthropic-version (2023-06-01)",
        "anthropic_beta": "a list of beta features to ask for, in the header anthropic-beta",
    }

    # Its schemas hold: https://docs.claude.com/en/docs/build-with-claude/structured-outputs, read 2026-11.
    guided_in = frozenset({"anthropic_messages"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        most = options.get("max_tokens", _MAX_TOKENS)
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise BadOption(f"Option max_tokens of provider {configured_as!r} must be a number of tokens, at least 1.")
        betas = options.get("anthropic_beta", [])
        if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):  # pyright: ignore[reportUnknownVariableType]
            raise BadOption(f"Option anthropic_beta of provider {configured_as!r} must be a list of names.")
        self._most = most
        self._headers = [("anthropic-version", str(options.get("anthropic_version", "2023-06-01")))]
        if betas:
            self._headers.append(("anthropic-beta", ",".join(betas)))  # pyright: ignore[reportUnknownArgumentType]

    def headers(self, credential: str | None) -> list[tuple[str, str]]:
        return [("x-api-key", credential), *self._headers] if credential else list(self._headers)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages" and not body.said("max_tokens"):
            body["max_tokens"] = self._most
        return bent
