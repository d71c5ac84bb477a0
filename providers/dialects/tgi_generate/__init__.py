"""Raw prompts as TGI's generate takes them ({inputs, parameters, stream}), and as AWS's LMI containers (DJL) do, with words of their own.

Engines alone are asked in these. A chat cannot be: which template its model wants, nobody here knows.
"""

from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Concessions
from providers.dialects.tgi_generate.answers import TokenReader, read_response
from providers.dialects.tgi_generate.asks import LMI, TGI, Words, write_request
from providers.media import Kind
from providers.wire import Body


class TGIGenerate:
    """See providers.dialect.EngineDialect, whose methods these are."""

    name: ClassVar[str] = "tgi_generate"
    only_bytes: ClassVar[frozenset[Kind]] = frozenset()
    _words: ClassVar[Words] = TGI

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        body["stream"] = stream

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions, self._words)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def reader(self) -> TokenReader:
        return TokenReader()


class LMIGenerate(TGIGenerate):
    name: ClassVar[str] = "lmi_generate"
    _words: ClassVar[Words] = LMI
