"""An engine's answer made the caller's. The same dialect: an edit of the bytes. Another: its meaning is read, and written anew.

Whole and stream: whichever the other side wants.
"""

import httpx

from providers.canonical.chat import ChatResponse, Usage
from providers.canonical.errors import InvalidUpstreamResponse, UpstreamError
from providers.canonical.events import ChoiceFinished, Event, PartDelta, ResponseAssembler, UsageReported, response_events
from providers.dialect import ChatDialect, Dialect, EngineDialect, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.catalogue import CHAT_DIALECTS, ENGINE_DIALECTS
from providers.engine_routes.route import Route
from providers.engine_routes.route_binding import RouteBinding
from providers.host_operation import HostOperation

_NO_HEADERS = httpx.Headers()
# An engine that says less than this in a token is rare.
_BYTES_PER_TOKEN = 4

# Those that engines alone are asked in are told by their half.
AnyDialect = Dialect | EngineDialect
TargetDialect = AnyDialect | RouteBinding | HostOperation


class WrittenTokenCounter:
    """About how many tokens a stream has brought: an engine that says more than one in an event is told by its characters."""

    def __init__(self) -> None:
        self._deltas = 0
        self._characters = 0

    @property
    def tokens(self) -> int:
        return max(self._deltas, self._characters // _BYTES_PER_TOKEN)

    def observe(self, event: Event) -> None:
        if isinstance(event, PartDelta):
            self._deltas += 1
            self._characters += len(event.text)


class StreamAssembler:
    """A whole answer out of an engine's stream."""

    def __init__(self, caller_dialect: ChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta) -> None:
        self._caller_dialect = caller_dialect
        self._meta = meta
        self._reader = engine_dialect.stream_reader()
        self._fold = ResponseAssembler()
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
            self._fold.feed(event)

    def finish(self) -> OutboundResponse:
        return write_response(self.response(), self._caller_dialect, self._meta)

    def response(self) -> ChatResponse:
        for event in self._reader.finish():
            self._fold.feed(event)
        return self._fold.finish()


class ResponseStreamer:
    """A stream for the caller out of a whole answer of an engine. An Editor whose one block is the answer."""

    def __init__(self, caller_dialect: ChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.written_tokens = 0
        self._engine_dialect = engine_dialect
        self._writer = caller_dialect.stream_writer(meta)

    def feed(self, block: bytes) -> bytes:
        self.written_tokens = len(block) // _BYTES_PER_TOKEN
        return self.stream_response(check_finished(self._engine_dialect.read_response(block)))

    def stream_response(self, response: ChatResponse) -> bytes:
        """All of an answer that is known already."""
        self.usage, self.finish_reason, self.done = response.usage, response.choices[0].finish_reason, True
        return b"".join([self._writer.feed(event) for event in response_events(response)])

    def finish(self) -> bytes:
        return self._writer.finish()


class StreamTranslator:
    """A stream for the caller out of an engine's stream in another dialect. See providers.dialect.Editor."""

    def __init__(self, caller_dialect: ChatDialect, engine_dialect: EngineDialect, meta: ResponseMeta) -> None:
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
                    self.finish_reason = event.reason
            case UsageReported():
                self.usage = event.usage
            case _:
                pass


def make_stream_editor(caller_dialect: Dialect, target_dialect: TargetDialect, meta: ResponseMeta, *, streamed: bool) -> StreamEditor:
    """What makes the engine's answer, streamed or whole, a stream of the caller's."""
    if streamed and caller_dialect is target_dialect:
        return caller_dialect.stream_editor(meta)
    chat_dialect, engine_dialect = chat_dialects(caller_dialect, target_dialect)
    return StreamTranslator(chat_dialect, engine_dialect, meta) if streamed else ResponseStreamer(chat_dialect, engine_dialect, meta)


def make_assembler(caller_dialect: Dialect, target_dialect: TargetDialect, meta: ResponseMeta) -> StreamAssembler:
    chat_dialect, engine_dialect = chat_dialects(caller_dialect, target_dialect)
    return StreamAssembler(chat_dialect, engine_dialect, meta)


def translate_response(
    raw: bytes, caller_dialect: Dialect, target_dialect: TargetDialect, meta: ResponseMeta, headers: httpx.Headers = _NO_HEADERS
) -> OutboundResponse:
    """A whole answer made the caller's. `headers`: the host's, which tell what some bodies do not."""
    if caller_dialect is target_dialect:
        return caller_dialect.edit_response(raw, meta)
    if isinstance(target_dialect, HostOperation):
        return caller_dialect.edit_response(target_dialect.read_response(raw, headers, meta), meta)
    if isinstance(target_dialect, RouteBinding) and isinstance(caller_dialect, Route):
        return caller_dialect.read_engine_response(raw, target_dialect, meta)
    chat_dialect, engine_dialect = chat_dialects(caller_dialect, target_dialect)
    return write_response(check_finished(engine_dialect.read_response(raw)), chat_dialect, meta)


def chat_dialects(caller_dialect: Dialect, target_dialect: TargetDialect) -> tuple[ChatDialect, EngineDialect]:
    """Raises Garbled for what is no chat: an engine streams what was to come whole, or the reverse."""
    chat_dialect, engine_dialect = CHAT_DIALECTS.get(caller_dialect.name), ENGINE_DIALECTS.get(target_dialect.name)
    if chat_dialect is None or engine_dialect is None:
        raise InvalidUpstreamResponse("The engine streamed an answer that was to come whole, or the reverse.")
    return chat_dialect, engine_dialect


def check_finished(response: ChatResponse) -> ChatResponse:
    if not response.choices or not all(choice.finish_reason for choice in response.choices):
        raise InvalidUpstreamResponse("The engine's answer has no choices, or none that is finished.")
    return response


def write_response(response: ChatResponse, caller_dialect: ChatDialect, meta: ResponseMeta) -> OutboundResponse:
    return OutboundResponse(
        caller_dialect.write_response(response, meta), response.usage, response.choices[0].finish_reason if response.choices else None
    )
