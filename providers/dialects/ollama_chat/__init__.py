"""Ollama's own chat (/api/chat), as engines are asked in it: its /v1 loses num_ctx, top_k, min_p, repeat_penalty and more in silence."""

from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Concessions
from providers.dialects.ollama_chat.answers import LineReader, read_response
from providers.dialects.ollama_chat.asks import write_request
from providers.media import Kind
from providers.wire import Body


class OllamaChat:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "ollama_chat"
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"image"})

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """It streams unless told not to, and always tells what it counted."""
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def reader(self) -> LineReader:
        return LineReader()
