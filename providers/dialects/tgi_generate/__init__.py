"""Raw prompts as TGI's generate takes them ({inputs, parameters, stream}), and as AWS's LMI containers (DJL) do, with words of their own.

Engines alone are asked in these. A chat cannot be: which template its model wants, nobody here knows.
"""

from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.tgi_generate.stream_reader import GenerateStreamReader, read_response
from providers.dialects.tgi_generate.write_request import LMI, TGI, GenerateApi, write_request


class TGIGenerate:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "tgi_generate"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()
    _api: ClassVar[GenerateApi] = TGI

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
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
