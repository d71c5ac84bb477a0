"""An engine's answer made the caller's. The same dialect: an edit of the bytes. Another: its meaning is read, and written anew.

Whole and stream: whichever the other side wants.
"""

import httpx

from providers.chat import ChatResponse, Usage
from providers.dialect import ChatDialect, Dialect, Edited, Editor, EngineDialect, Stamp
from providers.dialects.catalogue import CHAT_DIALECTS, ENGINE_DIALECTS
from providers.errors import Garbled, UpstreamError
from providers.events import Counted, Delta, Event, Finished, Fold, unfold
from providers.foreign import Foreign
from providers.routes.route import Route
from providers.routes.way import Way

_NONE_TOLD = httpx.Headers()
# An engine that says less than this in a token is rare.
_BYTES_OF_TOKEN = 4

# Those that engines alone are asked in are told by their half.
AnyDialect = Dialect | EngineDialect
Theirs = AnyDialect | Way | Foreign


class Written:
    """About how many tokens a stream has brought: an engine that says more than one in an event is told by its characters."""

    def __init__(self) -> None:
        self._deltas = 0
        self._characters = 0

    @property
    def tokens(self) -> int:
        return max(self._deltas, self._characters // _BYTES_OF_TOKEN)

    def note(self, event: Event) -> None:
        if isinstance(event, Delta):
            self._deltas += 1
            self._characters += len(event.text)


class Folding:
    """A whole answer out of an engine's stream."""

    def __init__(self, ours: ChatDialect, theirs: EngineDialect, stamp: Stamp) -> None:
        self._ours = ours
        self._stamp = stamp
        self._reader = theirs.reader()
        self._fold = Fold()
        self._written = Written()

    @property
    def done(self) -> bool:
        return self._reader.done

    @property
    def written_tokens(self) -> int:
        return self._written.tokens

    def feed(self, block: bytes) -> None:
        for event in self._reader.feed(block):
            self._written.note(event)
            self._fold.feed(event)

    def end(self) -> Edited:
        return written(self.answer(), self._ours, self._stamp)

    def answer(self) -> ChatResponse:
        for event in self._reader.end():
            self._fold.feed(event)
        return self._fold.end()


class Unfolding:
    """A stream for the caller out of a whole answer of an engine. An Editor whose one block is the answer."""

    def __init__(self, ours: ChatDialect, theirs: EngineDialect, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.written_tokens = 0
        self._theirs = theirs
        self._writer = ours.writer(stamp)

    def feed(self, block: bytes) -> bytes:
        self.written_tokens = len(block) // _BYTES_OF_TOKEN
        return self.tell(finished(self._theirs.read_response(block)))

    def tell(self, answer: ChatResponse) -> bytes:
        """All of an answer that is known already."""
        self.usage, self.finish_reason, self.done = answer.usage, answer.choices[0].finish_reason, True
        return b"".join([self._writer.feed(event) for event in unfold(answer)])

    def end(self) -> bytes:
        return self._writer.end()


class Crossing:
    """A stream for the caller out of an engine's stream in another dialect. See providers.dialect.Editor."""

    def __init__(self, ours: ChatDialect, theirs: EngineDialect, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._written = Written()
        self._reader = theirs.reader()
        self._writer = ours.writer(stamp)

    @property
    def written_tokens(self) -> int:
        return self._written.tokens

    def feed(self, block: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for event in self._reader.feed(block):
                self._note(event)
                out.append(self._writer.feed(event))
        except UpstreamError as failure:
            self.failure = failure
        self.done = self._reader.done
        return b"".join(out)

    def end(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        out: list[bytes] = []
        for event in self._reader.end():
            self._note(event)
            out.append(self._writer.feed(event))
        out.append(self._writer.end())
        return b"".join(out)

    def _note(self, event: Event) -> None:
        match event:
            case Delta():
                self._written.note(event)
            case Finished():
                if event.choice == 0 or self.finish_reason is None:
                    self.finish_reason = event.reason
            case Counted():
                self.usage = event.usage
            case _:
                pass


def editor(ours: Dialect, theirs: Theirs, stamp: Stamp, *, streamed: bool) -> Editor:
    """What makes the engine's answer, streamed or whole, a stream of the caller's."""
    if streamed and ours is theirs:
        return ours.editor(stamp)
    caller, engine = both(ours, theirs)
    return Crossing(caller, engine, stamp) if streamed else Unfolding(caller, engine, stamp)


def folding(ours: Dialect, theirs: Theirs, stamp: Stamp) -> Folding:
    caller, engine = both(ours, theirs)
    return Folding(caller, engine, stamp)


def whole(raw: bytes, ours: Dialect, theirs: Theirs, stamp: Stamp, headers: httpx.Headers = _NONE_TOLD) -> Edited:
    """A whole answer made the caller's. `headers`: the host's, which tell what some bodies do not."""
    if ours is theirs:
        return ours.edit(raw, stamp)
    if isinstance(theirs, Foreign):
        return ours.edit(theirs.read(raw, headers, stamp), stamp)
    if isinstance(theirs, Way) and isinstance(ours, Route):
        return ours.read(raw, theirs, stamp)
    caller, engine = both(ours, theirs)
    return written(finished(engine.read_response(raw)), caller, stamp)


def both(ours: Dialect, theirs: Theirs) -> tuple[ChatDialect, EngineDialect]:
    """Raises Garbled for what is no chat: an engine streams what was to come whole, or the reverse."""
    caller, engine = CHAT_DIALECTS.get(ours.name), ENGINE_DIALECTS.get(theirs.name)
    if caller is None or engine is None:
        raise Garbled("The engine streamed an answer that was to come whole, or the reverse.")
    return caller, engine


def finished(answer: ChatResponse) -> ChatResponse:
    if not answer.choices or not all(choice.finish_reason for choice in answer.choices):
        raise Garbled("The engine's answer has no choices, or none that is finished.")
    return answer


def written(answer: ChatResponse, ours: ChatDialect, stamp: Stamp) -> Edited:
    return Edited(ours.write_response(answer, stamp), answer.usage, answer.choices[0].finish_reason if answer.choices else None)
