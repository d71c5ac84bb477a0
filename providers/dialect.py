"""What one wire format must be able to read and write. No I/O: bytes in, bytes or meaning out."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatRequest, ChatResponse, Usage
from providers.canonical.errors import NarthexError, Unsupported, UpstreamError
from providers.canonical.events import Event
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body


class InboundRequest(Struct):
    """A caller's request: the caller's own bytes by key, and what the road must know of them.

    `episode_id`: as said in the body, not yet checked. `tags` by their precedence. `input_tokens`: an estimate (providers/canonical/token_estimate.py).
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
    previous_response_id: str | None = None
    references_items: bool = False
    stores_response: bool = False
    raw_prompt: bool = False
    has_strict_tools: bool | None = None


class ResponseMeta(Struct, frozen=True):
    """What we write over an engine's answer: our ids, the name asked for, and whether a stream shall tell usage.

    `id`: the inference's bare UUID. `created`: Unix seconds, for engines that tell none. `asked`: the caller's body, of which some
    dialects repeat a part in the answer. `stops_after_calls`: the engine says `stop` where an answer ends with calls of tools.
    """

    id: str
    episode_id: str
    model: str
    created: int
    wants_usage: bool
    request_body: Mapping[str, Any] = {}
    stops_after_calls: bool = False


class OutboundResponse(Struct, frozen=True):
    """A whole answer for the caller, and what the record wants of it. `finish_reason` in OpenAI's words, whatever the dialect."""

    raw: bytes
    usage: Usage | None
    finish_reason: str | None


_INDEX = re.compile(r"\[\d+\]")
# Fields of one API alone that change how an answer is made, and not what may be in it.
_HINT_FIELDS = frozenset(
    {
        *("cache_control", "prompt_cache_breakpoint", "prompt_cache_options", "prompt_cache_retention"),
        *("context_management", "speed", "eager_input_streaming", "defer_loading", "client_metadata", "diagnostics", "metadata"),
        *("include_obfuscation", "continuous_usage_stats", "do_preprocess", "phase", "detail"),
    }
)
# Values that ask for nothing. The last two are Anthropic's: only the model may call a tool, and a document need not be cited.
_NEUTRAL_VALUES: tuple[Any, ...] = (None, "", [], ["direct"], {"enabled": False})


class DropPolicy:
    """What a target is asked to do without: refused, unless the caller lets it go; then it is dropped, and reported.

    `words`: the caller's own name for what the meaning calls otherwise; `place`: the caller's own path for one in the meaning's messages.
    `most_places`: how many of them are looked for. `who`: the target, as an error names it.
    """

    def __init__(
        self,
        may_drop: Callable[[str], bool],
        field_names: Mapping[str, str],
        target_name: str,
        caller_path: Callable[[str], str] = lambda path: path,
        max_paths: int = 32,
    ) -> None:
        self._dropped: dict[str, None] = {}
        self._caller_paths: dict[str, str] = {}
        self._max_paths = max_paths
        self._may_drop = may_drop
        self._field_names = field_names
        self._target_name = target_name
        self._caller_path = caller_path

    @property
    def dropped(self) -> list[str]:
        """In the order in which they went."""
        return list(self._dropped)

    def drop_or_refuse(self, field: str, why: str) -> None:
        """`field`: a name of ChatRequest, or a path in the caller's body. Raises Unsupported unless the caller lets it go."""
        self._drop_or_refuse(self._caller_name(field), why)

    def _drop_or_refuse(self, caller_field: str, why: str) -> None:
        if not self._may_drop(caller_field) and not self._may_drop(caller_field.partition(".")[0].partition("[")[0]):
            raise Unsupported(
                f"`{caller_field}` cannot be honoured by {self._target_name}: {why} "
                f"Leave it out, choose another model, or send the header `x-narthex-drop: {caller_field}` to go without.",
                param=caller_field,
            )
        self._record_dropped(caller_field)

    def drop_extra_field(self, path: str, value: Raw, why: str) -> None:
        """A field that has no name of ours, by its place as without() takes it: a hint may go, an empty value asks for nothing.

        All else is refused.
        """
        if msgspec.json.decode(value) in _NEUTRAL_VALUES:
            return
        caller_field = self._find_caller_path(path) if path.startswith("messages[") else path
        if path.rpartition(".")[2] in _HINT_FIELDS:
            self._record_dropped(caller_field)
        else:
            self._drop_or_refuse(caller_field, why)

    def drop_hint(self, field: str) -> None:
        """What changes no answer, and may always go."""
        self._record_dropped(self._caller_name(field))

    def _caller_name(self, field: str) -> str:
        return self._find_caller_path(field) if field.startswith("messages[") else self._field_names.get(field, field)

    def _find_caller_path(self, path: str) -> str:
        """To find a place the body is read anew, and a body may have hints without end: then their kind is told, without numbers."""
        caller_path = self._caller_paths.get(path)
        if caller_path is None:
            if len(self._caller_paths) >= self._max_paths:
                return _INDEX.sub("[]", path)
            caller_path = self._caller_paths[path] = self._caller_path(path)
        return caller_path

    def _record_dropped(self, caller_field: str) -> None:
        self._dropped[caller_field] = None


class StreamEditor(Protocol):
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

    def finish(self) -> bytes: ...


class StreamReader(Protocol):
    """A stream's meaning. One per stream. `done`: the engine has said that it ended.

    feed() gives each event before it raises for what follows: an UpstreamError that the engine reports, or Garbled.
    end() raises CutShort if no choice has finished.
    """

    done: bool

    def feed(self, block: bytes) -> Iterable[Event]: ...

    def finish(self) -> Iterable[Event]: ...


class StreamWriter(Protocol):
    """Meaning as a stream. One per stream. What ends it is withheld by feed() and given by end()."""

    def feed(self, event: Event) -> bytes: ...

    def finish(self) -> bytes: ...


class Dialect(Protocol):
    """One wire format. As a server it opens asks and answers them; an engine that speaks it too is asked with the caller's own bytes."""

    name: ClassVar[str]

    def parse_request(self, raw: bytes) -> InboundRequest:
        """Raises Malformed with the path of the fault."""
        ...

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """A whole answer in this dialect for a caller of this dialect: our keys replaced, the rest untouched."""
        ...

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor: ...

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
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
    inline_media_kinds: ClassVar[frozenset[MediaKind]]

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """See Dialect.prepare."""
        ...

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        """The ask for an engine of this dialect: no stream, and the model as the chat says it. Raises as `concessions` does."""
        ...

    def read_response(self, raw: bytes) -> ChatResponse:
        """Raises the error that an engine told with status 200, or Garbled."""
        ...

    def stream_reader(self) -> StreamReader: ...


class ChatDialect(Dialect, EngineDialect, Protocol):
    """A wire format for chats, both ways, so that its callers reach engines that speak another."""

    # By names of ChatRequest, what this dialect calls them, where it says otherwise.
    field_names: ClassVar[Mapping[str, str]]

    def caller_path(self, body: Body, path: str) -> str:
        """Where in an ask stands what ChatRequest has at a path that begins with `messages[`: `system[0]`, `input[3].content[1]`.

        A path into what is not there stays as it is.
        """
        ...

    def read_request(self, body: Body) -> ChatRequest:
        """What an opened ask means. Raises Malformed for what open() lets pass and cannot be understood, with its path."""
        ...

    def write_response(self, answer: ChatResponse, meta: ResponseMeta) -> bytes: ...

    def stream_writer(self, meta: ResponseMeta) -> StreamWriter: ...
