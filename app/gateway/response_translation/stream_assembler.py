"""StreamAssembler: a non-streaming response out of an engine's stream."""

from app.gateway.response_translation.write_response import write_response
from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from providers.canonical.chat import ChatResponse
from providers.canonical.events import ResponseAssembler
from providers.dialect import ChatDialect, EngineDialect, OutboundResponse, ResponseMeta


class StreamAssembler:
    """feed() it the engine's stream until `done`; finish() gives the response in the caller's dialect, response() the canonical one."""

    def __init__(self, caller_dialect: ChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta) -> None:
        self._caller_dialect = caller_dialect
        self._meta = meta
        self._reader = engine_dialect.stream_reader()
        self._assembler = ResponseAssembler()
        self._token_counter = WrittenTokenCounter()

    @property
    def done(self) -> bool:
        return self._reader.done

    @property
    def written_tokens(self) -> int:
        return self._token_counter.tokens

    def feed(self, block: bytes) -> None:
        for event in self._reader.feed(block):
            self._token_counter.observe(event)
            self._assembler.feed(event)

    def finish(self) -> OutboundResponse:
        return write_response(self.response(), self._caller_dialect, self._meta)

    def response(self) -> ChatResponse:
        for event in self._reader.finish():
            self._assembler.feed(event)
        return self._assembler.finish()
