"""Google's generateContent, as Gemini models are asked in it at Google AI Studio and at Vertex AI: only hosts speak it, no caller."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.gemini.read_response import read_response
from providers.dialects.gemini.stream_reader import GeminiStreamReader
from providers.dialects.gemini.write_request import write_request


class Gemini:
    """See providers.dialect.EngineDialect, whose methods these are. `chat.model` must be the host's name: its rules differ by model."""

    name: ClassVar[str] = "gemini"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """The address says whether it streams, and usage is told always."""

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        """Without the model, which stands in the address."""
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> GeminiStreamReader:
        return GeminiStreamReader()
