"""Raw prompts for TGI's generate ({inputs, parameters, stream}), and for AWS's LMI containers (DJL), whose fields differ.

Chats are refused: the gateway does not know which template a model needs.
"""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.tgi_generate.read_response import read_response
from providers.dialects.tgi_generate.stream_reader import GenerateStreamReader
from providers.dialects.tgi_generate.write_request import LMI, TGI, GenerateApi, write_request
from providers.drop_policy import DropPolicy


class TGIGenerate:
    """Implements providers.dialect.EngineDialect."""

    name: ClassVar[str] = "tgi_generate"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()
    _api: ClassVar[GenerateApi] = TGI

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy, self._api)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def stream_reader(self) -> GenerateStreamReader:
        return GenerateStreamReader()


class LMIGenerate(TGIGenerate):
    name: ClassVar[str] = "lmi_generate"
    _api: ClassVar[GenerateApi] = LMI
