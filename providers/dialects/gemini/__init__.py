"""Google's generateContent, as Gemini models are asked in it at Google AI Studio and at Vertex AI: only hosts speak it, no caller."""

from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Concessions
from providers.dialects.gemini.answers import read_response
from providers.dialects.gemini.asks import write_request
from providers.dialects.gemini.stream import GeminiReader
from providers.media import Kind
from providers.wire import Body


class Gemini:
    """See providers.dialect.EngineDialect, whose methods these are. `chat.model` must be the host's name: its rules differ by model."""

    name: ClassVar[str] = "gemini"
    only_bytes: ClassVar[frozenset[Kind]] = frozenset()

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """The address says whether it streams, and usage is told always."""

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        """Without the model, which stands in the address."""
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def reader(self) -> GeminiReader:
        return GeminiReader()
