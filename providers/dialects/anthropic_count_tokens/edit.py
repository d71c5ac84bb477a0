"""Responses of count_tokens: an engine's, which is only checked (the official SDKs know `input_tokens` and no field of ours), or an
estimate.
"""

import msgspec

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import OutboundResponse
from providers.dialects.anthropic.errors import find_anthropic_error


class _Count(msgspec.Struct):
    input_tokens: int


_count_decoder = msgspec.json.Decoder(_Count)


def edit_response(raw: bytes) -> OutboundResponse:
    """The response, with a usage of 0: counted tokens are not used ones.

    Raises the error of a response with status 200, or InvalidUpstreamResponse.
    """
    body = Body.read_response(raw)
    error = find_anthropic_error(body)
    if error is not None:
        raise error
    try:
        _count_decoder.decode(raw)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is not a count of tokens: {decode_error}.") from None
    return OutboundResponse(body.write(), Usage(0, 0), None)


def estimate_response(input_tokens: int) -> OutboundResponse:
    """The gateway's own estimate (providers/canonical/token_estimate.py), where no engine counts."""
    return OutboundResponse(b'{"input_tokens":%d}' % input_tokens, Usage(0, 0), None)
