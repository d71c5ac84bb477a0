"""Opening a request to /v1/chat/completions: every documented field is checked, unknown ones pass.

Engines take a raw prompt there too: mini-sglang as `prompt`, LMDeploy as a string for `messages` with `do_preprocess: false`; without
that a string is one message of the user's.

Sources: OpenAI's API reference (https://platform.openai.com/docs/api-reference/chat/create, read 2026-11), and for the guided and
template fields the hosted gateway's reference, whose ranges these are.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import AUDIO_TOKENS, FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.dialect import InboundRequest

Probability = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
PositiveInt = Annotated[int, Meta(ge=1)]
RawObject = dict[str, Raw]


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
    """A part of a message. Types that only some engines know (video_url, ...) pass unread."""

    type: str
    text: str | None = None
    image_url: ImageUrl | str | None = None
    file: File | None = None
    input_audio: Audio | None = None
    refusal: str | None = None


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
    parameters: RawObject | None = None
    strict: bool | None = None


class CustomTool(Struct):
    name: str
    description: str | None = None
    format: RawObject | None = None


class Tool(Struct):
    """`type` is left out by Mistral's clients, and is "function" to Mistral and vLLM then."""

    type: str | None = None
    function: Function | None = None
    custom: CustomTool | None = None


class NamedFunction(Struct):
    name: str


class ToolChoice(Struct):
    type: str
    function: NamedFunction | None = None


class NamedSchema(Struct):
    name: str | None = None
    description: str | None = None
    schema: RawObject | bool | None = None
    strict: bool | None = None


class ResponseFormat(Struct):
    type: str
    json_schema: NamedSchema | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class Request(Struct):
    """The documented fields of a request; the body that is sent on stays the caller's bytes."""

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


_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises Malformed: what was wrong, where, and what was expected."""
    request, body = parse_body(raw, _decoder)
    raw_prompt = _normalize_prompt(request, body)
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("`stream_options` may be set only with `stream: true`.", param="stream_options")
    max_output_tokens = request.max_completion_tokens or request.max_tokens
    choices = request.n or 1
    return InboundRequest(
        dialect="openai_chat",
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=request.stream_options is not None and bool(request.stream_options.include_usage),
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=request.user,
        input_tokens=_input_tokens(raw, request),
        output_tokens=None if max_output_tokens is None else max_output_tokens * choices,
        choices=choices,
        raw_prompt=raw_prompt,
        has_strict_tools=any([tool.function is not None and tool.function.strict for tool in request.tools or ()]),
    )


def _normalize_prompt(request: Request, body: Body) -> bool:
    """Whether there is a raw prompt; then the body says it as `prompt`, and else its messages are a list."""
    messages, prompt = request.messages, request.prompt
    if prompt is not None and messages:
        raise InvalidRequest("`prompt` and `messages` both say what is asked: send one of them.", param="prompt")
    if isinstance(messages, str):
        body.pop("do_preprocess", None)
        if prompt is None and request.do_preprocess is False:
            del body["messages"]
            body["prompt"] = messages
            return True
        if prompt is None:
            body["messages"] = [{"role": "user", "content": messages}]
            return False
    if prompt is not None:
        body.pop("messages", None)
        return True
    if messages is None:
        raise InvalidRequest("Object missing required field `messages` (or `prompt`, a text to go on with).", param="messages")
    if not messages:
        raise InvalidRequest("Expected `messages` of length >= 1, or a `prompt`, at `messages`.", param="messages")
    return False


def _input_tokens(raw: bytes, request: Request) -> int:
    """The whole body counts as text, tools and schemas too, but for what is said in it of media."""
    # Without one of these words no part of a message is anything but text.
    if b"image_url" not in raw and b"input_audio" not in raw and b'"file"' not in raw:
        return text_tokens(len(raw))
    inline_bytes = media = 0
    for message in request.messages if isinstance(request.messages, list) else ():
        for part in message.content if isinstance(message.content, list) else ():
            match part.type:
                case "image_url":
                    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
                    inline_bytes += len(url or "")
                    media += IMAGE_TOKENS
                case "input_audio":
                    inline_bytes += len(part.input_audio.data) if part.input_audio else 0
                    media += AUDIO_TOKENS
                case "file":
                    inline_bytes += len(part.file.file_data or "") if part.file else 0
                    media += FILE_TOKENS
                case _:
                    pass
    return text_tokens(max(0, len(raw) - inline_bytes)) + media
