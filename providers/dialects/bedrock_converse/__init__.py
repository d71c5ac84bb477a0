"""Bedrock's Converse and ConverseStream, as Bedrock is asked in them for models of any family."""

from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Concessions
from providers.dialects.bedrock_converse.answers import read_response
from providers.dialects.bedrock_converse.asks import write_request
from providers.dialects.bedrock_converse.reader import ConverseReader
from providers.dialects.bedrock_converse.sealed import NAME
from providers.media import Kind
from providers.wire import Body


class BedrockConverse:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = NAME
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"image", "file", "audio"})

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Whether it streams stands in the address, and it always tells what it counted."""

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def reader(self) -> ConverseReader:
        return ConverseReader()
