"""Complete responses of generate, which may be in a list."""

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatResponse, Choice, Text
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.tgi_generate.finish_reasons import read_finish_reason
from providers.dialects.tgi_generate.logprobs import read_logprobs
from providers.dialects.tgi_generate.response_schema import Details, decode_chunk
from providers.dialects.tgi_generate.usage import read_usage

_decode_list = msgspec.json.Decoder(list[Raw]).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error of a response with status 200, or InvalidUpstreamResponse."""
    chunk = decode_chunk(_first_response(raw))
    if chunk.generated_text is None:
        raise InvalidUpstreamResponse("The engine's answer holds no generated text.")
    details = chunk.details or Details()
    finish_reason, upstream_finish_reason = read_finish_reason(details)
    logprobs = read_logprobs(details.tokens or (), details.top_tokens or ())
    choice = Choice((Text(chunk.generated_text),) if chunk.generated_text else (), finish_reason, logprobs or None, upstream_finish_reason)
    return ChatResponse((choice,), "", None, read_usage(details))


def _first_response(raw: bytes) -> bytes:
    """The only response of a list: the request has one prompt."""
    if raw.lstrip()[:1] != b"[":
        return raw
    try:
        responses = _decode_list(raw)
    except DECODE_ERRORS:
        responses = []
    return bytes(responses[0]) if responses else raw
