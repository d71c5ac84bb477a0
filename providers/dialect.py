"""What one wire format must be able to read and write. No I/O: bytes in, bytes or meaning out."""

from collections.abc import Mapping
from typing import ClassVar, Protocol

from msgspec import Struct

from providers.chat import ChatResponse, Usage
from providers.errors import NarthexError, UpstreamError
from providers.events import Event
from providers.wire import Body


class Ask(Struct):
    """A caller's request: the caller's own bytes by key, and what the road must know of them.

    `episode_id`: as said in the body, not yet checked. `tags` by their precedence. `input_tokens`: an estimate (providers/estimate.py).
    `output_tokens`: the most that the caller lets be written, all choices together; None: not said. `choices`: how many are wanted.
    """

    dialect: str
    body: Body
    model: str
    stream: bool
    wants_usage: bool
    episode_id: str | None
    tags: Mapping[str, str]
    end_user: str | None
    input_tokens: int
    output_tokens: int | None
    choices: int


class Stamp(Struct, frozen=True):
    """What we write over an engine's answer: our ids, the name asked for, and whether a stream shall tell usage.

    `created`: Unix seconds, for engines that tell none.
    """

    id: str
    episode_id: str
    model: str
    created: int
    wants_usage: bool


class Edited(Struct, frozen=True):
    """A whole answer for the caller, and what the record wants of it."""

    raw: bytes
    usage: Usage | None
    finish_reason: str | None


class Editor(Protocol):
    """A stream of an engine made the caller's: blocks in, bytes for the caller out, at once. One per stream.

    `written_tokens`: about how many came, for when nobody tells.
    What ends the stream is withheld by feed() and given by end(): the exchange is recorded in between.
    An error that the engine reports, or its garbling, is `failure`: what feed() gave before it is the caller's all the same.
    end() raises it, or CutShort if the engine ended too early. `done`: the engine has said that it ended.
    """

    usage: Usage | None
    finish_reason: str | None
    failure: UpstreamError | None
    done: bool

    @property
    def written_tokens(self) -> int: ...

    def feed(self, block: bytes) -> bytes: ...

    def end(self) -> bytes: ...


class Reader(Protocol):
    """A stream's meaning. One per stream. `done`: the engine has said that it ended."""

    done: bool

    def feed(self, block: bytes) -> list[Event]: ...

    def end(self) -> list[Event]: ...


class Writer(Protocol):
    """Meaning as a stream. One per stream."""

    def feed(self, event: Event) -> bytes: ...

    def end(self) -> bytes: ...


class Dialect(Protocol):
    """One wire format, both ways. As a server: opens asks, writes answers. As a client: the reverse."""

    name: ClassVar[str]

    def open(self, raw: bytes) -> Ask:
        """Raises Malformed with the path of the fault."""
        ...

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """A whole answer in this dialect for a caller of this dialect: our keys replaced, the rest untouched."""
        ...

    def editor(self, stamp: Stamp) -> Editor: ...

    def read_response(self, raw: bytes) -> ChatResponse: ...

    def write_response(self, answer: ChatResponse, stamp: Stamp) -> bytes: ...

    def reader(self) -> Reader: ...

    def writer(self, stamp: Stamp) -> Writer: ...

    def write_error(self, error: NarthexError) -> bytes: ...

    def write_error_frame(self, error: NarthexError) -> bytes:
        """The end of a stream that has begun and cannot go on."""
        ...
