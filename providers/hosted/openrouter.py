"""OpenRouter: one API before many hosts, which ignores what the host that it picks does not know, unless it is told not to."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers.dialects.openai_chat.detail_numbers import restore_numbers
from providers.errors import Refused, UpstreamError
from providers.guided import Constraint
from providers.hosted.rowed import Rowed
from providers.provider import BadOption, Bent, Provider
from providers.wire import NULL, UNREADABLE, Body, merged

# What some host of a model may not know; where one of these is said, only hosts that know all that is said are asked.
_MAY_BE_IGNORED = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", "seed", "logprobs", "top_logprobs", "logit_bias"),
        *("top_k", "min_p", "top_a", "repetition_penalty", "frequency_penalty", "presence_penalty", "reasoning", "verbosity"),
    }
)


class _Metadata(msgspec.Struct):
    reasons: list[str] | None = None


class _Error(msgspec.Struct):
    metadata: _Metadata | None = None


class _Told(msgspec.Struct):
    error: _Error


_told = msgspec.json.Decoder(_Told).decode


class OpenRouter(Rowed, row="openrouter"):
    """Sources: https://openrouter.ai/docs/features/provider-routing and /docs/api-reference/errors, read 2026-11."""

    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "require_parameters": "false: hosts are asked too that ignore some of what is said (true)",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        requires = options.get("require_parameters", True)
        if not isinstance(requires, bool):
            raise BadOption(f"Option require_parameters of provider {configured_as!r} must be true or false.")
        self._requires = requires

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect not in ("openai_chat", "openai_completions"):
            return bent
        restore_numbers(body)
        effort = body.pop("reasoning_effort", NULL)
        if effort != NULL:
            # Its own word, which is recorded; what the caller says there goes before.
            body["reasoning"] = {"effort": effort, **merged(body.get("reasoning"), {})}
        if self._requires and not _MAY_BE_IGNORED.isdisjoint(body):
            body["provider"] = {"require_parameters": True, **merged(body.get("provider"), {})}
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """403 tells of input that its moderation refused, not of our key, where it says reasons."""
        error = super().read_error(status, headers, body)
        if status != 403:
            return error
        try:
            metadata = _told(body).error.metadata
        except UNREADABLE:
            return error
        if metadata is None or not metadata.reasons:
            return error
        refused = Refused(f"The input was flagged by OpenRouter's moderation: {', '.join(metadata.reasons):.200}.", told=403)
        refused.said_code = error.said_code
        return refused
