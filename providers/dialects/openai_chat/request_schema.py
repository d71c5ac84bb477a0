"""The documented fields of a request to /v1/chat/completions, which are checked. Unknown fields pass.

Sources: OpenAI's API reference (https://platform.openai.com/docs/api-reference/chat/create, read 2026-11), and for the guided and
template fields the hosted gateway's reference, whose ranges these are.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from providers.canonical.tool_schemas import SchemaHead
from providers.dialects.openai.request_schema import Penalty, PositiveInt, Probability, RawObject, StreamOptions

_TEXT_TYPES = frozenset({"text", "refusal"})


class ImageUrl(Struct):
    url: str
    detail: str | None = None


class File(Struct):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class Audio(Struct):
    data: str
    format: str | None = None


class ContentPart(Struct):
    """A part of a message. Types that only some engines know (video_url, ...) are not checked."""

    type: str
    text: str | None = None
    image_url: ImageUrl | str | None = None
    file: File | None = None
    input_audio: Audio | None = None
    refusal: str | None = None
    # vLLM (0.11) reads these of a part of any type, where it has a `uuid`.
    audio_url: Any = None
    video_url: Any = None

    @property
    def is_text(self) -> bool:
        """Whether no engine finds media in it."""
        if self.type not in _TEXT_TYPES:
            return False
        return self.image_url is None and self.input_audio is None and self.audio_url is None and self.video_url is None


class FunctionCall(Struct):
    name: str
    arguments: str


class CustomToolCall(Struct):
    name: str
    input: str


class MessageToolCall(Struct):
    id: str | None = None
    type: str | None = None
    function: FunctionCall | None = None
    custom: CustomToolCall | None = None


class Message(Struct):
    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    function_call: FunctionCall | None = None


class Function(Struct):
    name: str
    description: str | None = None
    parameters: SchemaHead | UnsetType | None = UNSET
    strict: bool | None = None


class CustomTool(Struct):
    name: str
    description: str | None = None
    format: RawObject | None = None


class Tool(Struct):
    """A tool. Mistral's clients leave `type` out; Mistral and vLLM treat it as "function" then."""

    type: str | None = None
    function: Function | None = None
    custom: CustomTool | None = None
    name: str | None = None

    @property
    def is_flat(self) -> bool:
        """Whether it is written as in Responses, without an object inside, as some of Cursor's are beside others."""
        return self.name is not None and self.function is None and self.custom is None and self.type in ("function", "custom")


class NamedFunction(Struct):
    name: str


class ToolChoice(Struct):
    """A choice. LMDeploy's API has `function` as the default of its `type`."""

    type: str | None = None
    function: NamedFunction | None = None


class NamedSchema(Struct):
    name: str | None = None
    description: str | None = None
    schema: RawObject | bool | None = None
    strict: bool | None = None


class ResponseFormat(Struct):
    type: str
    json_schema: NamedSchema | None = None


class Request(Struct):
    """The documented fields of a request. The body that is sent on stays the caller's bytes."""

    model: str
    messages: list[Message] | str | None = None
    prompt: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: int | None = None
    n: PositiveInt | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoice | None = None
    functions: list[Function] | None = None
    function_call: str | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    top_k: int | None = None
    do_preprocess: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: RawObject | None = None
    mm_processor_kwargs: RawObject | None = None
    guided_json: RawObject | str | bool | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str], Meta(min_length=1)] | None = None
    guided_grammar: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    json_schema: RawObject | str | bool | None = None
    structural_tag: str | RawObject | None = None
    guided_decoding_backend: str | None = None
    guided_whitespace_pattern: str | None = None
    structured_outputs: RawObject | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")
