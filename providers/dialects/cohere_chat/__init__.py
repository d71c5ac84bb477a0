"""Cohere's own chat (/v2/chat), as it is asked in it: its OpenAI-compatible API loses documents, citations, thinking and safety modes."""

from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Concessions
from providers.dialects.cohere_chat.answers import read_response
from providers.dialects.cohere_chat.asks import write_request
from providers.dialects.cohere_chat.stream import EventReader
from providers.media import Kind
from providers.wire import Body


class CohereChat:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "cohere_chat"
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"file"})

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """It demands `stream`, and always tells what it counted."""
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def reader(self) -> EventReader:
        return EventReader()
