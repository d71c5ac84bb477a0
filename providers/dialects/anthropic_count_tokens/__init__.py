"""Anthropic's /v1/messages/count_tokens, for callers and engines that speak it. It is never translated."""

from typing import ClassVar

from providers.canonical.errors import InvalidUpstreamResponse, NarthexError
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.anthropic.errors import write_error, write_error_frame
from providers.dialects.anthropic.parse_request import parse_count_request
from providers.dialects.anthropic_count_tokens.edit import edit_response, estimate_response
from providers.keep_alive import COMMENTS, KeepAlive

__all__ = ["AnthropicCountTokens", "estimate_response"]


class AnthropicCountTokens:
    """Implements providers.dialect.Dialect."""

    name: ClassVar[str] = "anthropic_count_tokens"

    def parse_request(self, raw: bytes) -> InboundRequest:
        """Refuses `stream: true`, so that no request is streamed."""
        return parse_count_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw)

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """Called only if an engine streams a response that was not requested as a stream."""
        raise InvalidUpstreamResponse("The engine streamed its response to a count-tokens request.")

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        body.pop("stream", None)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
