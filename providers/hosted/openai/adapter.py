"""OpenAI itself, and whatever else speaks its dialect."""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.canonical.errors import Overloaded, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.raw_json import NULL, Body
from providers.structured_output import Constraint

# Models that reason refuse `max_tokens`, by which reasoning was never meant (recorded: openai/39-error-400-d); those that do not take
# either word. Names: https://platform.openai.com/docs/models, read 2026-11.
_REASONING_MODEL = re.compile(r"(?:ft:)?(?:o\d|gpt-(?:[5-9]|\d\d))(?![a-z0-9])")


class OpenAI(Provider):
    """Which parameters a model that reasons refuses (temperature, logprobs ...) differs by model and effort: its own 400 says it."""

    name: ClassVar[str] = "openai"
    reports_rate_limits: ClassVar[bool] = True
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
        self._account_headers: list[tuple[str, str]] = []
        for option in ("organization", "project"):
            value = options.get(option)
            if value is None:
                continue
            if not isinstance(value, str) or not value.isascii() or not value.isprintable():
                raise InvalidOption(f"Option {option} of provider {configured_as!r} must be an id.")
            self._account_headers.append((f"openai-{option}", value))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [*super().headers(credential, dialect), *self._account_headers]

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and "max_tokens" in body and self.is_openai_host:
            rename_max_tokens(body)
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """By `x-should-retry` it says of what would be the caller's fault (409, a lock) that it is not; its SDKs go by that too."""
        error = super().read_error(status, headers, body)
        if headers.get("x-should-retry") != "true" or not isinstance(error, UpstreamRejected) or isinstance(error, UpstreamNotFound):
            return error
        overloaded = Overloaded(error.message, upstream_status=status, retry_after_s=error.retry_after_s)
        overloaded.upstream_code = error.upstream_code
        return overloaded


def rename_max_tokens(body: Body) -> None:
    """For a model that reasons, by its newer name, which wins where both are said."""
    if "max_tokens" in body and is_reasoning_model(body.value("model")):
        max_tokens = body.pop("max_tokens")
        if max_tokens != NULL and not body.has_value("max_completion_tokens"):
            body["max_completion_tokens"] = max_tokens


def is_reasoning_model(model: Any) -> bool:
    """Whether a model of OpenAI's is, by its name, one that reasons."""
    return isinstance(model, str) and _REASONING_MODEL.match(model) is not None
