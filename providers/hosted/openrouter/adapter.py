"""OpenRouter: one API for many hosts. Fields that the chosen host does not support are ignored unless `require_parameters` is set."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.canonical.errors import UpstreamError, UpstreamRejected
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, merge_object
from providers.canonical.reclassify_error import reclassify
from providers.dialects.openai_chat.reasoning_detail_indexes import restore_engine_indexes
from providers.hosted.host_spec_provider import HostSpecProvider
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

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
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
