"""Raw prompts as Bedrock's InvokeModel takes them for Meta's Llama. A chat is no raw prompt: Converse has a template for those.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-meta.html, read 2026-11; recording aws_bedrock/28.
"""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.bedrock_llama.stream_reader import LlamaStreamReader, read_response
from providers.dialects.bedrock_llama.write_request import write_request


class BedrockLlama:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "bedrock_llama"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Whether it streams stands in the address, and it always tells what it counted."""

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> LlamaStreamReader:
        return LlamaStreamReader()
