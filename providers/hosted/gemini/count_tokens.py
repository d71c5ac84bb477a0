"""Anthropic's count_tokens by Google's countTokens, which contains the generateContent request to count.

Sources: https://ai.google.dev/api/tokens and, for Vertex, .../rest/v1/projects.locations.publishers.models/countTokens, read 2026-11.
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
from providers.dialects.gemini.write_request import write_request
from providers.drop_policy import DropPolicy
from providers.host_operation import HostOperation

_ANTHROPIC_MESSAGES = AnthropicMessages()
# Settings of the response do not count. Vertex accepts no fields but these; AI Studio accepts all of generateContent.
_COUNTED_FIELDS = ("contents", "systemInstruction", "tools", "generationConfig")


class _CountTokensResponse(Struct):
    """Google omits a count of 0."""

    totalTokens: int = 0
    error: msgspec.Raw = msgspec.Raw(b"null")


_decode_count = msgspec.json.Decoder(_CountTokensResponse).decode


def write_counted_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    """The body of Vertex's countTokens, and the dropped fields."""
    chat = replace(_ANTHROPIC_MESSAGES.read_request(body), model=model)
    drop_policy = DropPolicy(
        may_drop, _ANTHROPIC_MESSAGES.field_names, f"{model:.100} (Google)", lambda path: _ANTHROPIC_MESSAGES.caller_path(body, path)
    )
    request_body = write_request(chat, drop_policy)
    return Body({key: request_body[key] for key in _COUNTED_FIELDS if key in request_body}), drop_policy.dropped


def _write_count_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    request_body, dropped = write_counted_request(body, model, may_drop)
    return Body(generateContentRequest={"model": model_resource(model), **request_body}), dropped


def read_count(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    """Anthropic's response for a count of AI Studio or Vertex. Raises InvalidUpstreamResponse, or the error that the body holds."""
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        response = _decode_count(raw)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"Google's response is not a token count: {decode_error}.") from None
    return msgspec.json.encode({"input_tokens": response.totalTokens})


def model_resource(model: str) -> str:
    """AI Studio's resource name of a model: models/NAME, or tunedModels/NAME as it is."""
    return model if "/" in model else f"models/{model}"


GEMINI_COUNT_TOKENS = HostOperation("gemini_count_tokens", _write_count_request, read_count)
