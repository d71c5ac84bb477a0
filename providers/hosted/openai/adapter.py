"""OpenAI itself, and any other server of its dialects."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.canonical.errors import UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.raw_json import Body
from providers.canonical.reclassify_error import as_overload
from providers.dialects.openai_responses import remove_encrypted_reasoning
from providers.hosted.openai.count_tokens import OPENAI_COUNT_TOKENS
from providers.hosted.rules.foreign_members import drop_foreign_members
from providers.hosted.rules.openai_models import OpenAIModels
from providers.profiles.claude.models import find_profile
from providers.profiles.claude.own_rules import leave_sampling_out
from providers.profiles.gpt.token_limit import is_reasoning_model, rename_max_tokens
from providers.structured_output import Constraint


class OpenAI(OpenAIModels):
    """The rules of models (their efforts, what they refuse while they reason) apply at OpenAI itself only."""

    name: ClassVar[str] = "openai"
    reports_rate_limits: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAIModels.known_options,
        "organization": "the header OpenAI-Organization, for keys that belong to several organizations",
        "project": "the header OpenAI-Project",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self.thinking_fields = frozenset[str]() if self.is_openai_host else None
        # Whatever else serves OpenAI's API may be in the operator's network.
        self.is_self_hosted = not self.is_openai_host
        if self.is_openai_host:
            self.host_operations = {"anthropic_count_tokens": OPENAI_COUNT_TOKENS}
        self._account_headers: list[tuple[str, str]] = []
        for option in ("organization", "project"):
            value = options.get(option)
            if value is None:
                continue
            if not isinstance(value, str) or not value.isascii() or not value.isprintable():
                raise InvalidOption(f"Option {option} must be an id.")
            self._account_headers.append((f"openai-{option}", value))

    @property
    def enforces_strict_tools(self) -> bool:
        """Whether an unknown server does so is not known: the gateway validates the arguments of its calls."""
        return self.is_openai_host or self.trusted

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [*super().headers(credential, dialect), *self._account_headers]

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and self._has_openai_models:
            rename_max_tokens(body)
            drop_policy = self.drop_policy(body, may_drop)
            drop_foreign_members(body, drop_policy)
            adapted.dropped += drop_policy.dropped
        elif dialect == "openai_chat" and ("temperature" in body or "top_p" in body or "top_k" in body):
            # Another gateway to Claude: what it does with tools and efforts is its own, but no Claude takes these from anybody.
            model = body.get("model", "")
            if type(model) is not str:
                model = str(body.value("model") or "")
            if find_profile(model).sampling != "freely":
                adapted.dropped += leave_sampling_out(body, model)
        return adapted

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        super().set_model(body, dialect, model, stream)
        # Other models refuse to encrypt reasoning, of which they have none, with a 400.
        if dialect == "openai_responses" and self.is_openai_host and not is_reasoning_model(model):
            remove_encrypted_reasoning(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Returns the error that a response reports: an overload for a 4xx with `x-should-retry: true`.

        Such a 4xx, for instance a 409 (a lock), is not the caller's fault: OpenAI's SDKs retry it too. An UpstreamNotFound stays one.
        """
        error = super().read_error(status, headers, body)
        if headers.get("x-should-retry") != "true" or not isinstance(error, UpstreamRejected) or isinstance(error, UpstreamNotFound):
            return error
        return as_overload(error)
