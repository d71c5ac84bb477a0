"""StreamAssembler: a non-streaming response out of an engine's stream."""

from app.gateway.emulation.response_trimmer import ResponseTrimmer
from app.gateway.response_translation.write_response import check_answered, write_response
from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from providers.canonical.chat import ChatResponse
from providers.canonical.events import ResponseAssembler
from providers.dialect import CallerChatDialect, EngineDialect, OutboundResponse, ResponseMeta


class StreamAssembler:
    """feed() it the engine's stream until `done`; finish() gives the response in the caller's dialect, response() the canonical one.

    `trimmer` leaves out a part of it.
    """

    def __init__(
        self, caller_dialect: CallerChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta, trimmer: ResponseTrimmer | None = None
    ) -> None:
        self._caller_dialect = caller_dialect
        self._meta = meta
        self._reader = engine_dialect.stream_reader()
        self._assembler = ResponseAssembler()
        self._token_counter = WrittenTokenCounter()
        self._trimmer = trimmer

    @property
    def done(self) -> bool:
        return self._reader.done or self._is_cut

    @property
    def _is_cut(self) -> bool:
        return self._trimmer is not None and self._trimmer.has_ended

    @property
    def written_tokens(self) -> int:
        return self._token_counter.tokens

    def feed(self, block: bytes) -> None:
        events = self._reader.feed(block)
        for event in events if self._trimmer is None else self._trimmer.trim(events):
            self._token_counter.observe(event)
            self._assembler.feed(event)

    def finish(self) -> OutboundResponse:
        return write_response(self.response(), self._caller_dialect, self._meta)

    def response(self) -> ChatResponse:
        if not self._is_cut:
            events = self._reader.finish()
            for event in events if self._trimmer is None else self._trimmer.trim(events):
                self._assembler.feed(event)
        return check_answered(self._assembler.finish())
