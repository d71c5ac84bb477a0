"""Ollama's own chat (/api/chat), as engines are asked in it: its /v1 loses num_ctx, top_k, min_p, repeat_penalty and more in silence."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.ollama_chat.stream_reader import OllamaStreamReader, read_response
from providers.dialects.ollama_chat.write_request import write_request


class OllamaChat:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "ollama_chat"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"image"})

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """It streams unless told not to, and always tells what it counted."""
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> OllamaStreamReader:
        return OllamaStreamReader()
