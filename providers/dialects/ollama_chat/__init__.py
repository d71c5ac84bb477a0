"""Ollama's own chat API, /api/chat. Its /v1 silently loses num_ctx, top_k, min_p, repeat_penalty and more."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.ollama_chat.read_response import read_response
from providers.dialects.ollama_chat.stream_reader import OllamaStreamReader
from providers.dialects.ollama_chat.write_request import write_request
from providers.drop_policy import DropPolicy


class OllamaChat:
    """Implements providers.dialect.EngineDialect."""

    name: ClassVar[str] = "ollama_chat"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"image"})

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Always sends `stream`, whose default is true. Usage is always reported."""
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> OllamaStreamReader:
        return OllamaStreamReader()
