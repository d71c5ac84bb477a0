"""Bedrock's Converse and ConverseStream, as Bedrock is asked in them for models of any family."""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.bedrock_converse.opaque_blocks import NAME
from providers.dialects.bedrock_converse.read_response import read_response
from providers.dialects.bedrock_converse.stream_reader import ConverseStreamReader
from providers.dialects.bedrock_converse.write_request import write_request


class BedrockConverse:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = NAME
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"image", "file", "audio"})

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Whether it streams stands in the address, and it always tells what it counted."""

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> ConverseStreamReader:
        return ConverseStreamReader()
