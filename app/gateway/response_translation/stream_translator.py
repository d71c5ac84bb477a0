"""StreamTranslator: a stream for the caller out of an engine's stream in another dialect."""

from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from providers.canonical.chat import Usage
from providers.canonical.errors import UpstreamError
from providers.canonical.events import ChoiceFinished, Event, PartDelta, ResponseStarted, UsageReported
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.dialect import ChatDialect, EngineDialect, ResponseMeta


class StreamTranslator:
    """A providers.dialect.StreamEditor that reads the engine's events and writes them in the caller's dialect."""

    def __init__(self, caller_dialect: ChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._token_counter = WrittenTokenCounter()
        self._reader = engine_dialect.stream_reader()
        self._writer = caller_dialect.stream_writer(meta)

    @property
    def written_tokens(self) -> int:
        return self._token_counter.tokens

    def feed(self, block: bytes) -> bytes:
        written: list[bytes] = []
        try:
            for event in self._reader.feed(block):
                self._observe(event)
                written.append(self._writer.feed(event))
        except UpstreamError as failure:
            self.failure = failure
        self.done = self._reader.done
        return b"".join(written)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        written: list[bytes] = []
        for event in self._reader.finish():
            self._observe(event)
            written.append(self._writer.feed(event))
        written.append(self._writer.finish())
        return b"".join(written)

    def _observe(self, event: Event) -> None:
        match event:
            case PartDelta():
                self._token_counter.observe(event)
            case ChoiceFinished():
                if event.choice == 0 or self.finish_reason is None:
                    self.finish_reason = recorded_finish_reason(event.reason, event.upstream_finish_reason)
            case UsageReported():
                self.usage = event.usage
            case ResponseStarted():
                self.model = read_model_name(event.model)
            case _:
                pass
