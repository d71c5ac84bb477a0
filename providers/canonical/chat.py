"""The canonical chat: requests and responses in no vendor's format, with their parts in order. None means absent.

`extra` holds the fields of a dialect that have no name here, as they were written; only the same dialect can write them again.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Raw, Struct

from providers.canonical.output_format import OutputFormat

Extra = Mapping[str, Raw]


class Usage(Struct, frozen=True, array_like=True):
    """Tokens of one request and its response. None = not reported, 0 = reported as none.

    Parts of `input`: `cached`, `cache_written` (with its own parts `cache_written_hour` and `cache_written_12_hours`, which are kept so
    long), `audio_input`, `image_input`. Parts of `output`: `reasoning`, `audio_output`. Recorded as an array: fields are only ever
    appended.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    cache_written: int | None = None
    cache_written_hour: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None
    image_input: int | None = None
    tier: str | None = None  # how it was served, where that has its own price: "batch", "flex", "priority", "fast", "ultrafast"
    # the tokens that the host bills, where it bills others than it processed, and the cost is by these; None: those of `input`
    billed_input: int | None = None
    billed_output: int | None = None  # the same for `output`
    estimated: bool = False  # whether the gateway counted, as the host reported nothing
    host_cost_microusd: int | None = None  # what the host itself says that this cost
    requests: int | None = None  # the number of requests that these are the sum of; None: one
    cache_written_12_hours: int | None = None
    region: str | None = None  # where it was served, if the host names a place that may have its own price
    # how often something was used that hosts bill by the use, by name; see providers/canonical/tool_uses.py
    tool_uses: Mapping[str, int] | None = None
    # The usage by the model's runs, where the host says that it made several for one response and bills each; all other fields are of all
    # of them together.
    iterations: "tuple[Iteration, ...]" = ()


class Iteration(Struct, frozen=True, array_like=True):
    """One run of a model within a response."""

    model: str | None  # the host's name of it; None: the one that the response is of
    usage: Usage


class OpaqueState(Struct, frozen=True):
    """A signature or encrypted reasoning that came with a part: only the host that made it can read it, and it expects it back."""

    origin: str  # the host's dialect
    data: str


class Citation(Struct, frozen=True):
    """A source of a text."""

    origin: str
    raw: Raw  # the citation as `origin` wrote it
    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None  # an offset in the part's text, in characters, as is `end`
    end: int | None = None


class Text(Struct, frozen=True, tag=True):
    text: str
    citations: tuple[Citation, ...] = ()
    extra: Extra = {}
    phase: str | None = None  # OpenAI's, of a response: `commentary` or `final_answer`


class Reasoning(Struct, frozen=True, tag=True):
    """The reasoning that the model wrote before its answer."""

    text: str  # empty where the host returns its reasoning encrypted only
    opaque_state: OpaqueState | None = None
    extra: Extra = {}


class Refusal(Struct, frozen=True, tag=True):
    text: str


class ToolCall(Struct, frozen=True, tag=True):
    """A call by the model. `arguments`: as the model wrote them, which may be invalid JSON. `custom`: they are free text instead."""

    id: str
    name: str
    arguments: str
    custom: bool = False
    opaque_state: OpaqueState | None = None
    extra: Extra = {}


class Opaque(Struct, frozen=True, tag=True):
    """A part that only the dialect `origin` has, as it wrote it: a tool that the host ran and its result, redacted reasoning."""

    origin: str
    raw: Raw


# What responses consist of.
Part = Text | Reasoning | Refusal | ToolCall | Opaque


class Url(Struct, frozen=True, tag=True):
    url: str


class Inline(Struct, frozen=True, tag=True):
    """Media within the request."""

    media_type: str  # such as image/png
    data: str  # base64, as received


class Uploaded(Struct, frozen=True, tag=True):
    """A file that the host `origin` stores under an id."""

    origin: str
    id: str


Source = Url | Inline | Uploaded


class Image(Struct, frozen=True, tag=True):
    """An image in a message."""

    source: Source
    detail: str | None = None  # OpenAI's low, high or auto
    extra: Extra = {}


class File(Struct, frozen=True, tag=True):
    """A document, such as a PDF or a text."""

    source: Source
    name: str | None = None
    extra: Extra = {}


class Audio(Struct, frozen=True, tag=True):
    """A sound in a message. The `media_type` of its source is such as audio/wav."""

    source: Source
    extra: Extra = {}


class ToolResult(Struct, frozen=True, tag=True):
    """The result of a tool call, in a message of the user's."""

    id: str  # that of the call
    parts: "tuple[Text | Image | File | Opaque, ...]"
    is_error: bool | None = None
    custom: bool = False
    extra: Extra = {}


# What the messages of a request consist of.
Content = Part | Image | File | Audio | ToolResult

Role = Literal["system", "developer", "user", "assistant"]


class Message(Struct, frozen=True):
    """A message of a chat, of one role."""

    role: Role
    parts: tuple[Content, ...]
    name: str | None = None  # which participant of several speaks
    extra: Extra = {}


class Tool(Struct, frozen=True):
    """A function that the caller runs. `parameters`: its JSON schema. `custom`: it takes free text, whose grammar is `format`."""

    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None
    custom: bool = False
    format: Raw | None = None
    extra: Extra = {}


class HostTool(Struct, frozen=True):
    """A tool that the host runs itself, such as a web search, as the dialect `origin` writes it."""

    origin: str
    kind: str  # its type there
    raw: Raw
    optional: bool = False  # whether the caller offers it beside functions of its own, and does without it where the host has no such tool


class ToolChoice(Struct, frozen=True):
    """The caller's choice among tools: what the model may or must call."""

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None  # the tool that must be called, in mode "named"
    allowed: tuple[str, ...] | None = None  # the tools that may be called; None: all


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Thinking(Struct, frozen=True):
    """How much the model reasons."""

    effort: Effort | None = None  # "none": not at all
    budget_tokens: int | None = None
    adaptive: bool = False  # whether the model decides
    summary: str | None = None  # OpenAI's, how to report it
    between_tools: bool = False  # with effort "none", Claude may still write what it does between calls of tools


CacheMarkPlace = Literal["part", "request"]


class ChatRequest(Struct, frozen=True):
    """A request for a chat."""

    origin: str  # the caller's dialect
    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None  # raw text to continue, instead of messages
    tools: tuple[Tool | HostTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    output: OutputFormat | None = None
    thinking: Thinking | None = None
    verbosity: str | None = None
    max_tokens: int | None = None  # of each of the `n` choices, reasoning included
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    n: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: Raw | None = None  # OpenAI's object
    user: str | None = None
    safety_identifier: str | None = None
    metadata: Mapping[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    cache_key: str | None = None  # OpenAI's prompt_cache_key
    continues: bool = False  # the last message is the beginning of the response, which goes on exactly after it
    extra: Extra = {}
    # where the target reads Anthropic's `cache_control` in another dialect: in texts, or beside the messages
    cache_marks: frozenset[CacheMarkPlace] = frozenset()


class Choice(Struct, frozen=True):
    """One of the `n` choices of a response."""

    parts: tuple[Part, ...]
    finish_reason: str | None  # OpenAI's, that is stop, length, tool_calls or content_filter
    logprobs: tuple[Raw, ...] | None = None  # the entries of OpenAI's `content` list
    # the engine's own, where it is more precise: stop_sequence, pause_turn, refusal, model_context_window_exceeded
    upstream_finish_reason: str | None = None
    stop_sequence: str | None = None  # the one that ended the text


class ChatResponse(Struct, frozen=True):
    """A complete response."""

    choices: tuple[Choice, ...]  # by index
    model: str
    created: int | None = None  # Unix seconds
    usage: Usage | None = None  # None: the engine reports none
    system_fingerprint: str | None = None
    service_tier: str | None = None
