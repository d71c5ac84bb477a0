"""Between the caller's dialect and the engine's. Same dialect: an edit of the bytes. Whole and stream: whichever the other side wants."""

from collections.abc import Callable

from msgspec import Struct

from app.domain import Target
from providers.chat import ChatResponse, Usage
from providers.dialect import Ask, Dialect, Edited, Editor, Stamp
from providers.errors import Garbled, UpstreamError
from providers.estimate import text_tokens
from providers.events import Fold, unfold
from providers.provider import Provider
from providers.wire import Body, merged


class Prepared(Struct, frozen=True):
    """What goes to the engine, whether it will be asked to stream, and which of the caller's fields do not go."""

    raw: bytes
    stream: bool
    dropped: list[str]


def write_ask(ask: Ask, provider: Provider, target: Target, may_drop: Callable[[str], bool]) -> Prepared:
    """Raises Unsupported for what the provider cannot honour, Malformed for what it shows to be wrong."""
    body = Body(ask.body)
    dropped = provider.bend(body, may_drop)
    body["model"] = target.model
    stream = ask.stream if provider.streams == "both" else provider.streams == "only"
    if stream:
        body["stream"] = True
        if provider.stream_usage:
            body["stream_options"] = merged(body.get("stream_options"), {"include_usage": True})
        else:
            body.pop("stream_options", None)
    else:
        body.pop("stream", None)
        body.pop("stream_options", None)
    return Prepared(body.write(), stream, dropped)


class Folding:
    """A whole answer out of an engine's stream."""

    def __init__(self, dialect: Dialect, stamp: Stamp) -> None:
        self._dialect = dialect
        self._stamp = stamp
        self._reader = dialect.reader()
        self._fold = Fold()

    @property
    def done(self) -> bool:
        return self._reader.done

    def feed(self, block: bytes) -> None:
        for event in self._reader.feed(block):
            self._fold.feed(event)

    def end(self) -> Edited:
        for event in self._reader.end():
            self._fold.feed(event)
        answer = self._fold.end()
        return Edited(self._dialect.write_response(answer, self._stamp), answer.usage, _finish_reason(answer))


class Unfolding:
    """A stream for the caller out of a whole answer of an engine. An Editor whose one block is the answer."""

    def __init__(self, dialect: Dialect, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.written_tokens = 0
        self._dialect = dialect
        self._writer = dialect.writer(stamp)

    def feed(self, block: bytes) -> bytes:
        answer = self._dialect.read_response(block)
        if not answer.choices or not all(choice.finish_reason for choice in answer.choices):
            raise Garbled("The engine's answer has no choices, or none that is finished.")
        self.written_tokens = text_tokens(len(block))
        self.usage, self.finish_reason, self.done = answer.usage, _finish_reason(answer), True
        return b"".join([self._writer.feed(event) for event in unfold(answer)])

    def end(self) -> bytes:
        return self._writer.end()


def _finish_reason(answer: ChatResponse) -> str | None:
    return answer.choices[0].finish_reason if answer.choices else None


def editor(dialect: Dialect, stamp: Stamp, *, streamed: bool) -> Editor:
    """What makes the engine's answer, streamed or whole, a stream of the caller's."""
    return dialect.editor(stamp) if streamed else Unfolding(dialect, stamp)
