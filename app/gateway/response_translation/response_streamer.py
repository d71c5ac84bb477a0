"""ResponseStreamer: a stream for the caller out of an engine's non-streaming response."""

from app.gateway.emulation.emulation import Emulation
from app.gateway.emulation.response_trimmer import trim_response
from app.gateway.response_translation.write_response import check_finished, count_written_tokens
from providers.canonical.chat import ChatResponse, Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, UpstreamError
from providers.canonical.events import UsageReported, response_events
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.canonical.token_estimate import tokens_of_bytes
from providers.canonical.upstream_errors import add_upstream_message
from providers.dialect import CallerChatDialect, EngineDialect, ResponseMeta


class ResponseStreamer:
    """A providers.dialect.StreamEditor whose one block is the engine's response, which is trimmed by `emulation`."""

    def __init__(
        self, caller_dialect: CallerChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta, emulation: Emulation | None = None
    ) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.written_tokens = 0
        self._engine_dialect = engine_dialect
        self._writer = caller_dialect.stream_writer(meta)
        self._emulation = emulation
        self._meta = meta

    def feed(self, block: bytes) -> bytes:
        self.written_tokens = tokens_of_bytes(len(block))  # for a response that cannot be read
        try:
            response = check_finished(self._engine_dialect.read_response(block))
        except InvalidUpstreamResponse as error:
            raise add_upstream_message(error, block) from None
        return self.stream_response(response if self._emulation is None else trim_response(response, self._emulation))

    def stream_response(self, response: ChatResponse) -> bytes:
        """All frames of a response that has been read already."""
        self.model = read_model_name(response.model)
        first_choice = response.choices[0]
        self.usage, self.done = response.usage, True
        self.written_tokens = count_written_tokens(response)
        self.finish_reason = recorded_finish_reason(first_choice.finish_reason, first_choice.upstream_finish_reason)
        return b"".join([self._writer.feed(event) for event in response_events(response)])

    def finish(self) -> bytes:
        last = b""
        if self.usage is None and self._meta.wants_usage:
            last = self._writer.feed(UsageReported(self._meta.estimate_usage(self.written_tokens)))
        return last + self._writer.finish()

    def write_failure(self, error: NarthexError) -> bytes:
        return self._writer.write_failure(error)
