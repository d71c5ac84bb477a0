"""StreamTranslator: a stream for the caller out of an engine's stream in another dialect."""

from app.gateway.emulation.response_trimmer import ResponseTrimmer
from app.gateway.response_translation.write_response import EMPTY_ANSWER
from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, UpstreamError
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartStarted, ResponseStarted, UsageReported
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.dialect import CallerChatDialect, EngineDialect, ResponseMeta


class StreamTranslator:
    """A providers.dialect.StreamEditor that reads the engine's events and writes them in the caller's dialect.

    `trimmer` leaves out a part of them. A response that it ends is done, and its usage an estimate.
    """

    def __init__(
        self, caller_dialect: CallerChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta, trimmer: ResponseTrimmer | None = None
    ) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._token_counter = WrittenTokenCounter()
        self._reader = engine_dialect.stream_reader()
        self._writer = caller_dialect.stream_writer(meta)
        self._meta = meta
        self._trimmer = trimmer

    @property
    def written_tokens(self) -> int:
        return self._token_counter.tokens

    def feed(self, block: bytes) -> bytes:
        written: list[bytes] = []
        try:
            events = self._reader.feed(block)
            for event in events if self._trimmer is None else self._trimmer.trim(events):
                self._observe(event)
                written.append(self._writer.feed(event))
        except UpstreamError as failure:
            self.failure = failure
        self.done = self._reader.done or self._is_cut
        if self.done and self.failure is None and self._is_empty:  # before anything is sent, so that another target is tried
            self.failure = InvalidUpstreamResponse(EMPTY_ANSWER)
        return b"".join(written)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        written: list[bytes] = []
        if not self._is_cut:
            events = self._reader.finish()
            for event in events if self._trimmer is None else self._trimmer.trim(events):
                self._observe(event)
                written.append(self._writer.feed(event))
            if self._is_empty:
                raise InvalidUpstreamResponse(EMPTY_ANSWER)
        if self.usage is None and self._meta.wants_usage:
            written.append(self._writer.feed(UsageReported(self._meta.estimate_usage(self.written_tokens))))
        written.append(self._writer.finish())
        return b"".join(written)

    def write_failure(self, error: NarthexError) -> bytes:
        return self._writer.write_failure(error)

    @property
    def _is_empty(self) -> bool:
        return not self._is_cut and self._token_counter.is_empty(self.finish_reason, self.usage)

    @property
    def _is_cut(self) -> bool:
        return self._trimmer is not None and self._trimmer.has_ended

    def _observe(self, event: Event) -> None:
        match event:
            case PartDelta() | PartStarted():
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
