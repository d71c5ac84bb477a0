"""Google's generateContent, for Gemini models at Google AI Studio and Vertex AI. Callers cannot use it, only hosts."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.gemini.read_response import read_response
from providers.dialects.gemini.stream_reader import GeminiStreamReader
from providers.dialects.gemini.write_request import write_request
from providers.drop_policy import DropPolicy


class Gemini:
    """Implements providers.dialect.EngineDialect. `chat.model` must be the host's name of a model, on which the rules depend."""

    name: ClassVar[str] = "gemini"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Changes nothing: the URL says whether to stream, and usage is always reported."""

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        """The body has no model: that is part of the URL."""
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> GeminiStreamReader:
        return GeminiStreamReader()
