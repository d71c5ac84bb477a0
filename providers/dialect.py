"""The protocols that wire formats implement. They do no I/O: bytes and canonical chats go in, bytes and canonical chats come out.

A dialect has two sides: callers speak it to the gateway (CallerDialect, or Dialect if engines speak it as well), and the gateway speaks it
to engines (EngineDialect). Callers of a wire format for chats (CallerChatDialect) also reach engines that speak another one; a ChatDialect
has both sides. A request takes one of two ways:

    same dialect      parse_request  ->  prepare_upstream_body  ->  edit_response or stream_editor
    another dialect   parse_request, read_request  ->  (the engine's) write_request, prepare_upstream_body
                      (the engine's) read_response  ->  write_response, or (the engine's) stream_reader  ->  stream_writer

In the same dialect the caller's and the engine's own bytes are kept, but for the keys that are the gateway's. Errors are written by
write_error, write_error_frame and, in a stream that has begun, write_failure, whichever way the request took.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from providers.canonical.chat import ChatRequest, ChatResponse, Usage
from providers.canonical.errors import NarthexError, UpstreamError
from providers.canonical.events import Event
from providers.canonical.media import MediaKind
from providers.canonical.open_calls import Repair
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.keep_alive import KeepAlive
from providers.request_overrides.overrides import RequestOverrides


class InboundRequest(Struct):
    """A caller's request: the top level of its body, undecoded, and what the request pipeline needs to know of it."""

    dialect: str
    body: Body
    model: str
    stream: bool
    wants_usage: bool  # whether a stream has to report usage
    episode_id: str | None  # as written in the body, not yet checked
    tags: Mapping[str, str]  # merged by precedence
    end_user: str | None
    input_tokens: int  # an estimate (providers/canonical/token_estimate.py)
    output_tokens: int | None  # the most that the caller lets the model write, all choices together; None: no limit in the request
    choices: int  # how many the caller requests
    previous_response_id: str | None = None  # the response that this request continues
    references_items: bool = False  # whether it refers to items of earlier responses by id
    stores_response: bool = False  # whether the caller may retrieve the response later
    raw_prompt: bool = False  # whether it is a text to continue, though it came to the chat route
    has_strict_tools: bool | None = None  # whether a tool has `strict`; None: the dialect does not look
    holds_only_text: bool = False  # whether its own messages are known to hold no media
    names_no_model: bool = False  # whether `model` is empty, and the only model of the key that serves the route is meant
    overrides: RequestOverrides | None = None  # what the caller adds to the request that goes to a target; None: nothing
    model_field: str = "model"  # in which the caller names the model
    carries_state: bool = False  # whether it may hold carriers (providers/canonical/carrier.py) in a form that a search does not find
    has_context_items: bool = False  # whether the input has items that are no messages: see dialects/openai_responses/context_items.py
    compacts: bool = False  # whether the response is to be a compaction of the conversation
    has_summaries: bool = False  # whether the input has compactions of earlier turns
    repair: Repair | None = None  # what parsing did to put calls and their results in order; None: nothing


class ResponseMeta(Struct, frozen=True):
    """The values that the gateway writes into an engine's response: its own ids and the model name that the caller used."""

    # The inference's UUID, without a prefix.
    id: str
    episode_id: str
    model: str
    # Unix seconds, used where the engine reports none.
    created: int
    # Whether the stream reports usage to the caller.
    wants_usage: bool
    # The caller's body, of which some dialects repeat a part in the response.
    request_body: Mapping[str, Any] = {}
    # Whether the engine reports the finish reason `stop` for a response that ends with tool calls.
    stops_after_calls: bool = False
    # Tokens, for usage that the engine does not report.
    estimated_input: int = 0

    def estimate_usage(self, written_tokens: int) -> Usage:
        """The usage for the caller of a response whose engine reports none."""
        return Usage(self.estimated_input, written_tokens, estimated=True)


class OutboundResponse(Struct, frozen=True):
    """A non-streaming response for the caller, and what is recorded of it."""

    raw: bytes
    usage: Usage | None
    finish_reason: str | None  # OpenAI's, in every dialect
    model: str | None = None  # that the engine names in its response; None: it names none
    # the estimate that the caller is shown where the engine reports no usage; None: it reports some, or none is shown
    written_tokens: int | None = None


class StreamEditor(Protocol):
    """Turns an engine's stream into the caller's: feed() takes blocks, split anywhere, and returns bytes for the caller at once.

    One per stream. feed() withholds the end of the stream, and finish() returns it: the exchange is recorded in between.

    An error frame of the engine, or an invalid one, sets `failure`; what feed() returned before still goes to the caller. finish() then
    raises it. It raises StreamTruncated if the engine ended too early.
    """

    model: str | None  # that the engine has named
    usage: Usage | None
    finish_reason: str | None
    failure: UpstreamError | None
    done: bool  # the engine has ended the stream as its API specifies

    @property
    def written_tokens(self) -> int: ...  # an estimate of what has come so far, used where the engine reports no usage

    def feed(self, block: bytes) -> bytes: ...

    def finish(self) -> bytes: ...

    def write_failure(self, error: NarthexError) -> bytes:
        """The error as the end of this stream, in a dialect where that refers to what came before; else empty, for write_error_frame()."""
        ...


class StreamReader(Protocol):
    """Reads an engine's stream as events: feed() takes blocks, split anywhere. One per stream.

    feed() yields each event before it raises for what follows: the UpstreamError that the engine reports, or InvalidUpstreamResponse.
    finish() raises StreamTruncated if no choice has finished.
    """

    done: bool  # the engine has ended the stream as its API specifies

    def feed(self, block: bytes) -> Iterable[Event]: ...

    def finish(self) -> Iterable[Event]: ...


class StreamWriter(Protocol):
    """Writes events as a stream for the caller. One per stream. feed() withholds the end of the stream, and finish() returns it."""

    def feed(self, event: Event) -> bytes: ...

    def finish(self) -> bytes: ...

    def write_failure(self, error: NarthexError) -> bytes:
        """See StreamEditor.write_failure()."""
        ...


class CallerDialect(Protocol):
    """A wire format that callers speak."""

    name: ClassVar[str]

    def parse_request(self, raw: bytes) -> InboundRequest:
        """Checks a caller's body. Raises InvalidRequest, with the path of the invalid field in `param`."""
        ...

    def write_error(self, error: NarthexError) -> bytes:
        """The error as the body of a response, in this dialect's envelope."""
        ...

    def write_error_frame(self, error: NarthexError) -> bytes:
        """The error as the last frame of a stream of which nothing is known, or whose dialect needs nothing else; see write_failure()."""
        ...

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        """Returns what writes the frames that the caller of a stream is sent while its engine is silent."""
        ...


class Dialect(CallerDialect, Protocol):
    """A wire format that callers speak, and engines of the same format with them."""

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """An engine's non-streaming response for a caller of the same dialect: the gateway's keys are replaced, the rest is untouched.

        Raises the error that an engine sent with status 200, or InvalidUpstreamResponse.
        """
        ...

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """A new editor for one engine's stream to a caller of the same dialect."""
        ...

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Makes the body a streaming or a non-streaming request, in place, and removes what the gateway does itself.

        `include_usage` says that a stream has to report usage; this sets the field that requests it, in a dialect that has one.
        """
        ...


class EngineDialect(Protocol):
    """A wire format for chats that engines speak, whatever the caller speaks."""

    name: ClassVar[str]
    # Media of these kinds it carries as bytes only; it has no field for a URL.
    inline_media_kinds: ClassVar[frozenset[MediaKind]]

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """See Dialect.prepare_upstream_body()."""
        ...

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        """A non-streaming request for an engine of this dialect, with the chat's own model name.

        Whatever this dialect has no field for goes to `drop_policy`, by its name in ChatRequest; raises Unsupported as that does.
        """
        ...

    def read_response(self, raw: bytes) -> ChatResponse:
        """Raises the error that an engine sent with status 200, or InvalidUpstreamResponse."""
        ...

    def stream_reader(self) -> StreamReader:
        """A new reader for one engine's stream."""
        ...


class CallerChatDialect(CallerDialect, Protocol):
    """A wire format for chats that callers speak, so that they reach engines of any dialect.

    It reads what it has written too, as responses are recorded so.
    """

    # ChatRequest's field names -> this dialect's, where they differ.
    field_names: ClassVar[Mapping[str, str]]

    def caller_path(self, body: Body, path: str) -> str:
        """The path in a caller's body of what ChatRequest has at `path`, which begins with `messages[`.

        For instance `system[0]` or `input[3].content[1]`. A path that leads nowhere is returned unchanged.
        """
        ...

    def read_request(self, body: Body) -> ChatRequest:
        """The canonical chat of a parsed request.

        Raises InvalidRequest, with its path, for what parse_request() accepts and cannot be understood.
        """
        ...

    def write_response(self, response: ChatResponse, meta: ResponseMeta) -> bytes:
        """The body of a non-streaming response, with everything that the official SDK's types require."""
        ...

    def stream_writer(self, meta: ResponseMeta) -> StreamWriter:
        """A new writer for one caller's stream."""
        ...

    def read_response(self, raw: bytes) -> ChatResponse:
        """Raises InvalidUpstreamResponse for anything but a response."""
        ...

    def stream_reader(self) -> StreamReader:
        """A new reader for one stream."""
        ...


class ChatDialect(Dialect, CallerChatDialect, EngineDialect, Protocol):
    """A wire format for chats that callers speak and engines too."""
