"""Raw prompts for Meta's Llama on Bedrock's InvokeModel. Chats go to Converse, which applies the model's template.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-meta.html, read 2026-11; recording aws_bedrock/28.
"""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.bedrock_llama.read_response import read_response
from providers.dialects.bedrock_llama.stream_reader import LlamaStreamReader
from providers.dialects.bedrock_llama.write_request import write_request
from providers.drop_policy import DropPolicy


class BedrockLlama:
    """Implements providers.dialect.EngineDialect."""

    name: ClassVar[str] = "bedrock_llama"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Changes nothing: the URL says whether to stream, and usage is always reported."""

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> LlamaStreamReader:
        return LlamaStreamReader()
