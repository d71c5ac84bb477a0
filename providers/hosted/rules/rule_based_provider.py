"""RuleBasedProvider: a host with HostRules for OpenAI's dialects."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.adapters.content_parts import drop_unsupported_parts
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Adapted
from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.hosted.rules.host_rules import HostRules, enforce_rules
from providers.hosted.rules.model_rules import ModelHosting, adapt_to_model, why_no_images
from providers.structured_output import Constraint


class RuleBasedProvider(OpenAICompatible):
    """Enforces `rules`, and those of the request's model, before the rest of adapt_request; a subclass adds what is not data."""

    rules: ClassVar[HostRules] = HostRules()
    models: ClassVar[ModelHosting] = ModelHosting()
    # Whether its streams report usage only with stream_options.
    requests_stream_usage: ClassVar[bool] = True

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self.thinking_fields, self.cache_marks = self.rules.thinking_fields, self.rules.cache_marks
        self.stream_usage = bool(options.get("stream_usage", self.requests_stream_usage))

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        return drop_unsupported_parts(chat, self.rules.unsupported_parts, drop_policy) if dialect == "openai_chat" else chat

    def why_no_images(self, model: str) -> str | None:
        return why_no_images(model)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        adapt_to_model(body, dialect, self.models, drop_policy)
        enforce_rules(body, dialect, self.rules, self.unsupported_fields | self.hint_fields, drop_policy)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:] = dict.fromkeys([*drop_policy.dropped, *adapted.dropped])
        return adapted
