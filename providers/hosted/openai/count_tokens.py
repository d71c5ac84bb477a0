"""Anthropic's count_tokens by OpenAI's POST /v1/responses/input_tokens, which takes a request of Responses.

Source: openai-python 3, resources/responses/input_tokens.py, read 2026-11. Not recorded.
"""

from collections.abc import Callable

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.upstream_errors import find_error
from providers.dialect import ResponseMeta
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.openai_responses import OpenAIResponses
from providers.drop_policy import DropPolicy
from providers.host_operation import HostOperation

_MESSAGES, _RESPONSES = AnthropicMessages(), OpenAIResponses()
# All that the route takes of what a request of Responses may have.
_COUNTED_FIELDS = ("input", "instructions", "tools")


class _Count(Struct):
    input_tokens: int


_decode_count = msgspec.json.Decoder(_Count).decode


def _write_count_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    chat = replace(_MESSAGES.read_request(body), model=model)
    policy = DropPolicy(may_drop, _MESSAGES.field_names, f"{model:.100} (OpenAI)", lambda path: _MESSAGES.caller_path(body, path))
    written = _RESPONSES.write_request(chat, policy)
    return Body(model=model, **{key: written[key] for key in _COUNTED_FIELDS if key in written}), policy.dropped


def _read_count(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    """Anthropic's response for a count of OpenAI. Raises InvalidUpstreamResponse, or the error that the body holds."""
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return msgspec.json.encode({"input_tokens": _decode_count(raw).input_tokens})
    except DECODE_ERRORS as fault:
        raise InvalidUpstreamResponse(f"OpenAI's response is not a token count: {fault}.") from None


OPENAI_COUNT_TOKENS = HostOperation("openai_input_tokens", _write_count_request, _read_count)
