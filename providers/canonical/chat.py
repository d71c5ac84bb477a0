"""The meaning of a chat, whichever wire it came over: what is asked, and what is answered. Parts keep their order; `None` means not said.

`extra` holds what a dialect says that has no name here, as it was written: only the same dialect can say it again.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Raw, Struct

from providers.structured_output import OutputFormat

Extra = Mapping[str, Raw]

# Fields that engines of the OpenAI kind know beyond the dialects' own: whoever sends one, in whichever dialect, means the same by it.
ENGINE_FIELDS = frozenset(
    {
        *("top_k", "min_p", "top_a", "typical_p", "tfs_z", "repetition_penalty", "length_penalty", "no_repeat_ngram_size"),
        *("min_tokens", "ignore_eos", "stop_token_ids", "bad_words", "include_stop_str_in_output", "skip_special_tokens"),
        *("spaces_between_special_tokens", "truncate_prompt_tokens", "allowed_token_ids", "best_of", "use_beam_search"),
        *("chat_template", "chat_template_kwargs", "mm_processor_kwargs", "add_generation_prompt", "continue_final_message"),
        *("priority", "cache_salt", "vllm_xargs", "lora_path", "session_id", "separate_reasoning", "enable_thinking"),
        *("guided_whitespace_pattern", "guided_decoding_backend"),
    }
)


class Usage(Struct, frozen=True, array_like=True):
    """Tokens: of all that was read and written. None = not reported, 0 = reported as none.

    Parts of `input`: `cached`, `cache_written` (and of that what is kept for an hour, `cache_written_hour`), `audio_input`, `image_input`.
    Parts of `output`: `reasoning`, `audio_output`. `tier`: as what it was served where that has a price of its own: "batch", "flex",
    "priority". Recorded: fields are only ever appended.
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
    tier: str | None = None


class OpaqueState(Struct, frozen=True):
    """What came with a part that only its minter can read, and wants back: a signature, encrypted reasoning. `origin`: the dialect."""

    origin: str
    data: str


class Citation(Struct, frozen=True):
    """Where a text comes from. `start` and `end`: characters of the part's text. `raw`: as `origin` wrote it."""

    origin: str
    raw: Raw
    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None


class Text(Struct, frozen=True, tag=True):
    text: str
    citations: tuple[Citation, ...] = ()
    extra: Extra = {}


class Reasoning(Struct, frozen=True, tag=True):
    """`text` may be empty where all that came is sealed."""

    text: str
    opaque_state: OpaqueState | None = None
    extra: Extra = {}


class Refusal(Struct, frozen=True, tag=True):
    text: str


class ToolCall(Struct, frozen=True, tag=True):
    """`arguments` stays the string that the model wrote: it need not be JSON, and of a `custom` tool is not."""

    id: str
    name: str
    arguments: str
    custom: bool = False
    opaque_state: OpaqueState | None = None
    extra: Extra = {}


class Opaque(Struct, frozen=True, tag=True):
    """A part that only `origin` has, as it wrote it: a tool that the host ran and its result, redacted reasoning."""

    origin: str
    raw: Raw


# What an answer is made of.
Part = Text | Reasoning | Refusal | ToolCall | Opaque


class Url(Struct, frozen=True, tag=True):
    url: str


class Inline(Struct, frozen=True, tag=True):
    """`data` in base64, as it came. `media_type` as in image/png."""

    media_type: str
    data: str


class Uploaded(Struct, frozen=True, tag=True):
    """A file that `origin` keeps under an id."""

    origin: str
    id: str


Source = Url | Inline | Uploaded


class Image(Struct, frozen=True, tag=True):
    """`detail`: low, high, auto, as OpenAI says it."""

    source: Source
    detail: str | None = None
    extra: Extra = {}


class File(Struct, frozen=True, tag=True):
    """A document: PDF, text and others."""

    source: Source
    name: str | None = None
    extra: Extra = {}


class Audio(Struct, frozen=True, tag=True):
    """`source.media_type` as in audio/wav."""

    source: Source
    extra: Extra = {}


class ToolResult(Struct, frozen=True, tag=True):
    """What a call gave, in a message of the user's. `id`: the call's."""

    id: str
    parts: "tuple[Text | Image | File | Opaque, ...]"
    is_error: bool | None = None
    custom: bool = False
    extra: Extra = {}


# What an ask is made of.
Content = Part | Image | File | Audio | ToolResult

Role = Literal["system", "developer", "user", "assistant"]


class Message(Struct, frozen=True):
    """`name`: of one participant among several."""

    role: Role
    parts: tuple[Content, ...]
    name: str | None = None
    extra: Extra = {}


class Tool(Struct, frozen=True):
    """A function that the caller runs. `parameters`: its JSON schema. `custom`: it takes free text, of which `format` tells the grammar."""

    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None
    custom: bool = False
    format: Raw | None = None
    extra: Extra = {}


class HostTool(Struct, frozen=True):
    """A tool that the host runs itself, such as a web search, as `origin` wrote it. `kind`: its type there."""

    origin: str
    kind: str
    raw: Raw


class ToolChoice(Struct, frozen=True):
    """`name`: the one that must be called, for mode "named". `allowed`: the only ones that may be; None: all."""

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None
    allowed: tuple[str, ...] | None = None


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Thinking(Struct, frozen=True):
    """How much to reason. `effort` "none": not at all. `adaptive`: as the model finds right. `summary`: how reasoning is to be told."""

    effort: Effort | None = None
    budget_tokens: int | None = None
    adaptive: bool = False
    summary: str | None = None


class ChatRequest(Struct, frozen=True):
    """A whole ask. `origin`: the dialect it was said in. `prompt`: raw text to continue, in place of messages.

    `max_tokens`: of each of `n` answers, reasoning included. `logit_bias` as OpenAI writes it. `cache_key`: OpenAI's prompt_cache_key.
    """

    origin: str
    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    tools: tuple[Tool | HostTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    output: OutputFormat | None = None
    thinking: Thinking | None = None
    verbosity: str | None = None
    max_tokens: int | None = None
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
    logit_bias: Raw | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: Mapping[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    cache_key: str | None = None
    extra: Extra = {}


class Choice(Struct, frozen=True):
    """One of the answers asked for. `finish_reason` in OpenAI's words: stop, length, tool_calls, content_filter.

    `told`: the engine's own word, where it says more: stop_sequence, pause_turn, refusal, model_context_window_exceeded.
    `stop_sequence`: the one that ended it. `logprobs`: the entries of OpenAI's `content` list, as told.
    """

    parts: tuple[Part, ...]
    finish_reason: str | None
    logprobs: tuple[Raw, ...] | None = None
    upstream_finish_reason: str | None = None
    stop_sequence: str | None = None


class ChatResponse(Struct, frozen=True):
    """A whole answer. `created` in Unix seconds. `choices` by index. `usage` None: the engine did not count."""

    choices: tuple[Choice, ...]
    model: str
    created: int | None = None
    usage: Usage | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
