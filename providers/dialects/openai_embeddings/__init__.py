"""OpenAI's embeddings: texts or token ids in, vectors out. Never streamed."""

from typing import ClassVar

from providers.canonical.errors import InvalidUpstreamResponse, NarthexError
from providers.canonical.raw_json import Body
from providers.canonical.sse import sse_frame
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.openai.errors import write_error_envelope
from providers.dialects.openai_embeddings.edit import edit_response
from providers.dialects.openai_embeddings.parse_request import parse_request
from providers.keep_alive import COMMENTS, KeepAlive


class OpenAIEmbeddings:
    """OpenAI embeddings. The methods are documented in providers.dialect.Dialect."""

    name: ClassVar[str] = "openai_embeddings"

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """Always raises: a request never asks for a stream."""
        raise InvalidUpstreamResponse("The engine streamed a response that must not be streamed.")

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Never streamed, whatever the arguments."""
        body.pop("stream", None)
        body.pop("stream_options", None)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return sse_frame(write_error_envelope(error))

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
