"""Raw prompts as Bedrock's InvokeModel takes them for Meta's Llama. A chat is no raw prompt: Converse has a template for those.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-meta.html, read 2026-11; recording aws_bedrock/28.
"""

from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Concessions
from providers.dialects.bedrock_llama.answers import GenerationReader, read_response
from providers.dialects.bedrock_llama.asks import write_request
from providers.media import Kind
from providers.wire import Body


class BedrockLlama:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "bedrock_llama"
    only_bytes: ClassVar[frozenset[Kind]] = frozenset()

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Whether it streams stands in the address, and it always tells what it counted."""

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def reader(self) -> GenerationReader:
        return GenerationReader()
