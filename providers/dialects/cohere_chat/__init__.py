"""Cohere's own chat API, /v2/chat. Its OpenAI-compatible API loses documents, citations, thinking and safety modes."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.cohere_chat.read_response import read_response
from providers.dialects.cohere_chat.stream_reader import CohereStreamReader
from providers.dialects.cohere_chat.write_request import write_request
from providers.drop_policy import DropPolicy


class CohereChat:
    """Implements providers.dialect.EngineDialect."""

    name: ClassVar[str] = "cohere_chat"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"file"})

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Always sends `stream`, which is required. Usage is always reported."""
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> CohereStreamReader:
        return CohereStreamReader()
