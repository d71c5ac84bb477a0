"""What one wire format must be able to read and write. No I/O: bytes in, bytes or meaning out."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import Raw, Struct

from providers.chat import ChatRequest, ChatResponse, Usage
from providers.errors import NarthexError, Unsupported, UpstreamError
from providers.events import Event
from providers.media import Kind
from providers.wire import Body


class Ask(Struct):
    """A caller's request: the caller's own bytes by key, and what the road must know of them.

    `episode_id`: as said in the body, not yet checked. `tags` by their precedence. `input_tokens`: an estimate (providers/estimate.py).
    `output_tokens`: the most that the caller lets be written, all choices together; None: not said. `choices`: how many are wanted.
    `previous`: the answer that this one goes on from (previous_response_id). `stores`: the caller may ask for the answer again.
    `refers`: to items of earlier answers, by their ids. `raw_prompt`: not a chat but a text to go on with, though it came as one.
    `strict`: whether one of its tools is to be; None: it was not looked whether.
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
    previous: str | None = None
    refers: bool = False
    stores: bool = False
    raw_prompt: bool = False
    strict: bool | None = None


class Stamp(Struct, frozen=True):
    """What we write over an engine's answer: our ids, the name asked for, and whether a stream shall tell usage.

    `id`: the inference's bare UUID. `created`: Unix seconds, for engines that tell none. `asked`: the caller's body, of which some
    dialects repeat a part in the answer. `stops_after_calls`: the engine says `stop` where an answer ends with calls of tools.
    """

    id: str
    episode_id: str
    model: str
    created: int
    wants_usage: bool
    asked: Mapping[str, Any] = {}
    stops_after_calls: bool = False


class Edited(Struct, frozen=True):
    """A whole answer for the caller, and what the record wants of it. `finish_reason` in OpenAI's words, whatever the dialect."""

    raw: bytes
    usage: Usage | None
    finish_reason: str | None


_INDEX = re.compile(r"\[\d+\]")
# Fields of one API alone that change how an answer is made, and not what may be in it.
_HINTS = frozenset(
    {
        *("cache_control", "prompt_cache_breakpoint", "prompt_cache_options", "prompt_cache_retention"),
        *("context_management", "speed", "eager_input_streaming", "defer_loading", "client_metadata", "diagnostics", "metadata"),
        *("include_obfuscation", "continuous_usage_stats", "do_preprocess", "phase", "detail"),
    }
)
# Values that ask for nothing. The last two are Anthropic's: only the model may call a tool, and a document need not be cited.
_NO_DEMANDS: tuple[Any, ...] = (None, "", [], ["direct"], {"enabled": False})


class Concessions:
    """What a target is asked to do without: refused, unless the caller lets it go; then it is dropped, and reported.

    `words`: the caller's own name for what the meaning calls otherwise; `place`: the caller's own path for one in the meaning's messages.
    `most_places`: how many of them are looked for. `who`: the target, as an error names it.
    """

    def __init__(
        self,
        may_drop: Callable[[str], bool],
        words: Mapping[str, str],
        who: str,
        place: Callable[[str], str] = lambda path: path,
        most_places: int = 32,
    ) -> None:
        self._dropped: dict[str, None] = {}
        self._placed: dict[str, str] = {}
        self._most_places = most_places
        self._may_drop = may_drop
        self._words = words
        self._who = who
        self._place = place

    @property
    def dropped(self) -> list[str]:
        """In the order in which they went."""
        return list(self._dropped)

    def without(self, field: str, why: str) -> None:
        """`field`: a name of ChatRequest, or a path in the caller's body. Raises Unsupported unless the caller lets it go."""
        self._without(self._told(field), why)

    def _without(self, said: str, why: str) -> None:
        if not self._may_drop(said) and not self._may_drop(said.partition(".")[0].partition("[")[0]):
            raise Unsupported(
                f"`{said}` cannot be honoured by {self._who}: {why} "
                f"Leave it out, choose another model, or send the header `x-narthex-drop: {said}` to go without.",
                param=said,
            )
        self._note(said)

    def extra(self, path: str, value: Raw, why: str) -> None:
        """A field that has no name of ours, by its place as without() takes it: a hint may go, an empty value asks for nothing.

        All else is refused.
        """
        if msgspec.json.decode(value) in _NO_DEMANDS:
            return
        said = self._placed_at(path) if path.startswith("messages[") else path
        if path.rpartition(".")[2] in _HINTS:
            self._note(said)
        else:
            self._without(said, why)

    def hint(self, field: str) -> None:
        """What changes no answer, and may always go."""
        self._note(self._told(field))

    def _told(self, field: str) -> str:
        return self._placed_at(field) if field.startswith("messages[") else self._words.get(field, field)

    def _placed_at(self, path: str) -> str:
        """To find a place the body is read anew, and a body may have hints without end: then their kind is told, without numbers."""
        said = self._placed.get(path)
        if said is None:
            if len(self._placed) >= self._most_places:
                return _INDEX.sub("[]", path)
            said = self._placed[path] = self._place(path)
        return said

    def _note(self, said: str) -> None:
        self._dropped[said] = None


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
    """A stream's meaning. One per stream. `done`: the engine has said that it ended.

    feed() gives each event before it raises for what follows: an UpstreamError that the engine reports, or Garbled.
    end() raises CutShort if no choice has finished.
    """

    done: bool

    def feed(self, block: bytes) -> Iterable[Event]: ...

    def end(self) -> Iterable[Event]: ...


class Writer(Protocol):
    """Meaning as a stream. One per stream. What ends it is withheld by feed() and given by end()."""

    def feed(self, event: Event) -> bytes: ...

    def end(self) -> bytes: ...


class Dialect(Protocol):
    """One wire format. As a server it opens asks and answers them; an engine that speaks it too is asked with the caller's own bytes."""

    name: ClassVar[str]

    def open(self, raw: bytes) -> Ask:
        """Raises Malformed with the path of the fault."""
        ...

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """A whole answer in this dialect for a caller of this dialect: our keys replaced, the rest untouched."""
        ...

    def editor(self, stamp: Stamp) -> Editor: ...

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Makes a request for an engine one for a stream, or for a whole answer; and one that leaves what the gateway keeps to the gateway.

        `tell_usage`: a stream is to tell it, where that must be asked for.
        """
        ...

    def write_error(self, error: NarthexError) -> bytes: ...

    def write_error_frame(self, error: NarthexError) -> bytes:
        """The end of a stream that has begun and cannot go on."""
        ...


class EngineDialect(Protocol):
    """The half of a wire format for chats in which engines are asked: what it takes to reach one, whatever the caller speaks."""

    name: ClassVar[str]
    # Media of these kinds it can only say in bytes, not by an address.
    only_bytes: ClassVar[frozenset[Kind]]

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """See Dialect.prepare."""
        ...

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        """The ask for an engine of this dialect: no stream, and the model as the chat says it. Raises as `concessions` does."""
        ...

    def read_response(self, raw: bytes) -> ChatResponse:
        """Raises the error that an engine told with status 200, or Garbled."""
        ...

    def reader(self) -> Reader: ...


class ChatDialect(Dialect, EngineDialect, Protocol):
    """A wire format for chats, both ways, so that its callers reach engines that speak another."""

    # By names of ChatRequest, what this dialect calls them, where it says otherwise.
    words: ClassVar[Mapping[str, str]]

    def place(self, body: Body, path: str) -> str:
        """Where in an ask stands what ChatRequest has at a path that begins with `messages[`: `system[0]`, `input[3].content[1]`.

        A path into what is not there stays as it is.
        """
        ...

    def read_request(self, body: Body) -> ChatRequest:
        """What an opened ask means. Raises Malformed for what open() lets pass and cannot be understood, with its path."""
        ...

    def write_response(self, answer: ChatResponse, stamp: Stamp) -> bytes: ...

    def writer(self, stamp: Stamp) -> Writer: ...
