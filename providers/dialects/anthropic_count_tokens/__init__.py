"""Anthropic's count of the tokens of a request to /v1/messages: asked and answered in one dialect, by engines that speak it."""

from typing import ClassVar

import msgspec

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.anthropic.errors import find_anthropic_error, write_error, write_error_frame
from providers.dialects.anthropic.parse_request import parse_count_request


class _Count(msgspec.Struct):
    input_tokens: int


_count = msgspec.json.Decoder(_Count)


class AnthropicCountTokens:
    """See providers.dialect.Dialect, whose methods these are."""

    name: ClassVar[str] = "anthropic_count_tokens"

    def parse_request(self, raw: bytes) -> InboundRequest:
        """`stream: true` is refused, so that there is never one."""
        return parse_count_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """As it came: the clients know `input_tokens` and nothing of ours. What was counted was not used: 0."""
        body = Body.read_response(raw)
        error = find_anthropic_error(body)
        if error is not None:
            raise error
        try:
            _count.decode(raw)
        except DECODE_ERRORS as decode_error:
            raise InvalidUpstreamResponse(f"The engine's answer is not a count of tokens: {decode_error}.") from None
        return OutboundResponse(body.write(), Usage(0, 0), None)

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """Never wanted: an engine that streams all the same has not answered what was asked."""
        raise InvalidUpstreamResponse("The engine answered a count of tokens with a stream.")

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        body.pop("stream", None)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)
