"""OpenAI's embeddings: texts or token ids in, vectors out. No chat, and never a stream."""

from typing import ClassVar

from providers.canonical.errors import InvalidUpstreamResponse, NarthexError
from providers.canonical.raw_json import Body, sse_frame
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.openai.errors import write_error_envelope
from providers.dialects.openai_embeddings.edit import edit_response
from providers.dialects.openai_embeddings.request_schema import parse_request


class OpenAIEmbeddings:
    """See providers.dialect.Dialect, whose methods these are."""

    name: ClassVar[str] = "openai_embeddings"

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """Nobody may ask for a stream here, so none may come."""
        raise InvalidUpstreamResponse("The engine streamed an answer that was to come whole.")

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Whole, whatever is wanted elsewhere."""
        body.pop("stream", None)
        body.pop("stream_options", None)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return sse_frame(write_error_envelope(error))
