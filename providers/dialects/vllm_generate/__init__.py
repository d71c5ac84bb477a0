"""vLLM's own API for tokens: token ids in, token ids out, streaming and non-streaming. For callers that tokenize themselves."""

from typing import ClassVar

from providers.canonical.errors import NarthexError
from providers.canonical.raw_json import Body
from providers.canonical.sse import sse_frame
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.openai.errors import write_error_envelope
from providers.dialects.openai.upstream_body import prepare_upstream_body
from providers.dialects.vllm_generate.edit import TokenStreamEditor, edit_response
from providers.dialects.vllm_generate.parse_request import parse_request
from providers.keep_alive import COMMENTS, KeepAlive


class VLLMGenerate:
    """vLLM's generate API. The methods are documented in providers.dialect.Dialect."""

    name: ClassVar[str] = "vllm_generate"

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> TokenStreamEditor:
        return TokenStreamEditor(meta)

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        prepare_upstream_body(body, stream, include_usage=include_usage)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return sse_frame(write_error_envelope(error))

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
