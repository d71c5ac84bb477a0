"""Cohere's own chat (/v2/chat), as it is asked in it: its OpenAI-compatible API loses documents, citations, thinking and safety modes."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.cohere_chat.read_response import read_response
from providers.dialects.cohere_chat.stream_reader import CohereStreamReader
from providers.dialects.cohere_chat.write_request import write_request


class CohereChat:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "cohere_chat"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"file"})

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """It demands `stream`, and always tells what it counted."""
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> CohereStreamReader:
        return CohereStreamReader()
