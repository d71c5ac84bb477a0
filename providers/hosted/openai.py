"""OpenAI itself, and whatever else speaks its dialect."""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.errors import Missing, Overloaded, Refused, UpstreamError
from providers.guided import Constraint
from providers.provider import BadOption, Bent, Provider
from providers.wire import NULL, Body

# Models that reason refuse `max_tokens`, by which reasoning was never meant (recorded: openai/39-error-400-d); those that do not take
# either word. Names: https://platform.openai.com/docs/models, read 2026-11.
_REASONS = re.compile(r"(?:ft:)?(?:o\d|gpt-(?:[5-9]|\d\d))(?![a-z0-9])")


class OpenAI(Provider):
    """Which parameters a model that reasons refuses (temperature, logprobs ...) differs by model and effort: its own 400 says it."""

    name: ClassVar[str] = "openai"
    tells_allowance: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "organization": "the header OpenAI-Organization: whose account is asked, for keys that belong to several",
        "project": "the header OpenAI-Project",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._account: list[tuple[str, str]] = []
        for option in ("organization", "project"):
            said = options.get(option)
            if said is None:
                continue
            if not isinstance(said, str) or not said.isascii() or not said.isprintable():
                raise BadOption(f"Option {option} of provider {configured_as!r} must be an id.")
            self._account.append((f"openai-{option}", said))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [*super().headers(credential, dialect), *self._account]

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and "max_tokens" in body and self.at_openai:
            name_max_tokens(body)
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """By `x-should-retry` it says of what would be the caller's fault (409, a lock) that it is not; its SDKs go by that too."""
        error = super().read_error(status, headers, body)
        if headers.get("x-should-retry") != "true" or not isinstance(error, Refused) or isinstance(error, Missing):
            return error
        again = Overloaded(error.message, told=status, retry_after_s=error.retry_after_s)
        again.said_code = error.said_code
        return again


def name_max_tokens(body: Body) -> None:
    """For a model that reasons, by its newer name, which wins where both are said."""
    if "max_tokens" in body and reasons(body.value("model")):
        said = body.pop("max_tokens")
        if said != NULL and not body.said("max_completion_tokens"):
            body["max_completion_tokens"] = said


def reasons(model: Any) -> bool:
    """Whether a model of OpenAI's is, by its name, one that reasons."""
    return isinstance(model, str) and _REASONS.match(model) is not None
