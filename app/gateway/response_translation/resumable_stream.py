"""ResumableStream: a stream for the caller that goes on with the stream of another engine where the first one broke off."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from app.gateway.response_translation.write_response import EMPTY_ANSWER
from app.gateway.response_translation.written_tokens import ArrivedTokenCounter
from providers.canonical.chat import Text, Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, StreamTruncated, UpstreamError
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.dialect import CallerChatDialect, EngineDialect, ResponseMeta

# What is kept of the text, so that another engine can go on after it. A longer response breaks off like any other.
_MAX_CHARACTERS = 200_000


class ResumableStream:
    """A providers.dialect.StreamEditor for one request, whose engine open() changes.

    `usage`, `written_tokens`, `finish_reason` and `model` are those of the newest engine's stream alone, which is charged by itself. The
    caller is sent the usage of the whole response. `continues_prompt` says that the request is a raw prompt, which goes on with exactly the
    text.
    """

    def __init__(self, caller_dialect: CallerChatDialect, *, continues_prompt: bool) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.is_sent = False  # whether the caller has been sent the beginning
        self._caller_dialect = caller_dialect
        self._continues_prompt = continues_prompt

    def open(self, engine_dialect: EngineDialect, meta: ResponseMeta) -> "ResumableStream":
        """Prepares for the stream of an attempt, before its first block.

        As long as nothing was sent the response begins anew; after that it goes on after text().
        """
        self.model, self.usage, self.finish_reason, self.failure, self.done = None, None, None, None, False
        self._reader = engine_dialect.stream_reader()
        self._counter = ArrivedTokenCounter()
        if not self.is_sent:
            self._writer = self._caller_dialect.stream_writer(meta)
            self._meta = meta
            self._earlier_tokens = 0
            self._first_input: int | None = None
            self._pieces: list[str] = []
            self._characters = 0
            self._has_started = False
            self._open_part: tuple[int, int] | None = None
            self._is_plain = True
            self._joint: _Joint | None = None
        return self

    def break_off(self) -> None:
        """The engine's stream has ended before its end, and what it wrote is charged: the next one begins with nothing."""
        self._earlier_tokens += self._counter.tokens
        self._counter = ArrivedTokenCounter()
        self.usage = None
        self._joint = _Joint(self.text()[len(self.prefix()) :])

    @property
    def written_tokens(self) -> int:
        return self._counter.tokens

    @property
    def tokens_in_all(self) -> int:
        """How many tokens the caller has been sent, as ArrivedTokenCounter counts them."""
        return self._earlier_tokens + self._counter.tokens

    @property
    def may_resume(self) -> bool:
        """Whether all that was sent is the beginning of a text, so that an engine that is given it can go on."""
        return self.is_sent and self._is_plain and self.finish_reason is None

    def text(self) -> str:
        """Returns the text that the caller has been sent."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def prefix(self) -> str:
        """The text that another engine is given. In chats engines and templates strip white space at its end, or refuse it."""
        return self.text() if self._continues_prompt else self.text().rstrip()

    def feed(self, block: bytes) -> bytes:
        written: list[bytes] = []
        try:
            self._write(self._reader.feed(block), written)
        except UpstreamError as failure:
            self.failure = failure
        self.done = self._reader.done
        if self.done and self.failure is None and self._is_empty:  # before anything is sent, so that another target is tried
            self.failure = InvalidUpstreamResponse(EMPTY_ANSWER)
        return b"".join(written)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        written: list[bytes] = []
        self._write(self._reader.finish(), written)
        if self._is_empty:
            raise InvalidUpstreamResponse(EMPTY_ANSWER)
        if self.usage is None and self._meta.wants_usage:
            written.append(self._writer.feed(UsageReported(self._meta.estimate_usage(self.tokens_in_all))))
        written.append(self._writer.finish())
        return b"".join(written)

    def write_failure(self, error: NarthexError) -> bytes:
        return self._writer.write_failure(error)

    @property
    def _is_empty(self) -> bool:
        return not self._earlier_tokens and self._counter.is_empty(self.finish_reason, self.usage)

    def _write(self, events: Iterable[Event], written: list[bytes]) -> None:
        for event in events:
            kept = self._observe(event)
            if kept is not None:
                written.append(self._writer.feed(kept))

    def _observe(self, event: Event) -> Event | None:
        """The event as the caller gets it; None: the caller has it already."""
        match event:
            case ResponseStarted():
                self.model = read_model_name(event.model)
                is_known, self._has_started = self._has_started, True
                return None if is_known else event
            case PartStarted(part=Text(text="")) if self._open_part is None and self._is_plain:
                self._open_part = (event.choice, event.index)
            case PartStarted() if self._joint is not None and (event.choice, event.index) == self._open_part:
                if not isinstance(event.part, Text) or event.part.text:
                    raise StreamTruncated("The engine that was to go on with the text began something else.")
                return None
            case PartDelta():
                self._counter.observe(event)
                if self._joint is not None:
                    event = replace(event, text=self._joint.trim(event.text))
                    if not event.text:
                        return None
                if self._is_plain:
                    self._pieces.append(event.text)
                    self._characters += len(event.text)
                    if self._characters > _MAX_CHARACTERS:
                        self._is_plain, self._pieces = False, []
            case UsageReported():
                return self._whole_usage(event)
            case ChoiceFinished():
                if event.choice == 0 or self.finish_reason is None:
                    self.finish_reason = recorded_finish_reason(event.reason, event.upstream_finish_reason)
            case PartFinished():
                self._is_plain = False
            case _:
                self._counter.observe(event)
                self._is_plain = False
        return event

    def _whole_usage(self, event: UsageReported) -> UsageReported:
        self._counter.observe(event)
        self.usage = event.usage
        if self._joint is None:
            self._first_input = event.usage.input
            return event
        # The prompt of the engine that went on had the text that was written before.
        usage, earlier = event.usage, self._earlier_tokens
        if self._first_input is not None or usage.input is None:
            input = self._first_input
        else:
            input = max(0, usage.input - earlier)
        return UsageReported(replace(usage, input=input, output=None if usage.output is None else usage.output + earlier))


class _Joint:
    """Leaves out the white space with which a continuation begins where the caller has it already."""

    def __init__(self, sent: str) -> None:
        self._sent = sent

    def trim(self, text: str) -> str:
        while self._sent and text and text[0] == self._sent[0]:
            text, self._sent = text[1:], self._sent[1:]
        if text:
            self._sent = ""
        return text


def ends_with_part_of(text: str, stops: Sequence[str]) -> bool:
    """Whether the text ends with the beginning of a stop string."""
    return any(text.endswith(stop[:length]) for stop in stops for length in range(1, len(stop)))
