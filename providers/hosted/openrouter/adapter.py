"""OpenRouter: one API for many hosts. Fields that the chosen host does not support are ignored unless `require_parameters` is set."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import UpstreamError, UpstreamRejected
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, merge_object
from providers.canonical.reclassify_error import reclassify
from providers.dialects.openai_chat.reasoning_detail_indexes import restore_engine_indexes
from providers.drop_policy import DropPolicy
from providers.hosted.host_spec_provider import HostSpecProvider
from providers.profiles.claude.adapt_chat import adapt_relayed_chat
from providers.profiles.claude.models import find_profile, is_claude
from providers.profiles.claude.own_rules import breaks_rules_in_chat
from providers.profiles.gpt.adapt_request import RULED_FIELDS, adapt_relayed
from providers.profiles.gpt.models import find_rules
from providers.structured_output import Constraint

# Fields that some host of a model may not support: a request with one of them goes only to hosts that support all its fields.
_FIELDS_HOSTS_MAY_IGNORE = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", "seed", "logprobs", "top_logprobs", "logit_bias"),
        *("top_k", "min_p", "top_a", "repetition_penalty", "frequency_penalty", "presence_penalty", "reasoning", "verbosity"),
    }
)


class _Metadata(msgspec.Struct):
    reasons: list[str] | None = None


class _Error(msgspec.Struct):
    metadata: _Metadata | None = None


class _ErrorResponse(msgspec.Struct):
    error: _Error


_decode_error = msgspec.json.Decoder(_ErrorResponse).decode


class OpenRouter(HostSpecProvider, host="openrouter"):
    """Sources: https://openrouter.ai/docs/features/provider-routing and /docs/api-reference/errors, read 2026-11."""

    adapts_own_dialects: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "require_parameters": "false: also use hosts that ignore some fields of the request (true)",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        requires_parameters = options.get("require_parameters", True)
        if not isinstance(requires_parameters, bool):
            raise InvalidOption("Option require_parameters must be true or false.")
        self._requires_parameters = requires_parameters

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        return dialect == "openai_chat" and is_claude(model) and breaks_rules_in_chat(body, find_profile(model))

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        """Claude's rules are the same here: OpenRouter sends on what it is sent."""
        return adapt_relayed_chat(chat, drop_policy) if is_claude(chat.model) else super().adapt_chat(chat, dialect, drop_policy)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        refused_by_model = self._adapt_gpt(body, may_drop) if dialect == "openai_chat" and not RULED_FIELDS.isdisjoint(body) else []
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = refused_by_model
        if dialect not in ("openai_chat", "openai_completions"):
            return adapted
        restore_engine_indexes(body)
        effort = body.pop("reasoning_effort", NULL)
        if effort != NULL:
            # OpenRouter's own field (recorded); the caller's own value for it wins.
            body["reasoning"] = {"effort": effort, **merge_object(body.get("reasoning"), {})}
        if self._requires_parameters and not _FIELDS_HOSTS_MAY_IGNORE.isdisjoint(body):
            body["provider"] = {"require_parameters": True, **merge_object(body.get("provider"), {})}
        return adapted

    def _adapt_gpt(self, body: Body, may_drop: Callable[[str], bool]) -> list[str]:
        """Drops or refuses what OpenAI's models refuse while they reason, and returns what was dropped.

        With require_parameters no host would be found for such a request. See hosts.toml.
        """
        model = body.value("model")
        rules = find_rules(model) if isinstance(model, str) and "openai/" in model else None
        if rules is None:
            return []
        drop_policy = self.drop_policy(body, may_drop)
        adapt_relayed(body, rules, drop_policy)
        return drop_policy.dropped

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A 403 with reasons means that moderation refused the input, not that our credential was refused."""
        error = super().read_error(status, headers, body)
        if status != 403:
            return error
        try:
            metadata = _decode_error(body).error.metadata
        except DECODE_ERRORS:
            return error
        if metadata is None or not metadata.reasons:
            return error
        message = f"The input was flagged by OpenRouter's moderation: {', '.join(metadata.reasons):.200}."
        return reclassify(error, UpstreamRejected(message, upstream_status=403))
