"""Reading a request to /v1/chat/completions: every documented field is checked, unknown ones pass.

Sources: OpenAI's API reference (https://platform.openai.com/docs/api-reference/chat/create, read 2026-11), and for the guided and
template fields the hosted gateway's reference, whose ranges these are.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from providers.dialect import Ask
from providers.errors import Malformed
from providers.estimate import AUDIO, FILE, IMAGE, text_tokens
from providers.wire import Body, half_pair

Unit = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1)]
Object = dict[str, Raw]


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


class CalledFunction(Struct):
    name: str
    arguments: str


class MadeCall(Struct):
    id: str | None = None
    type: str | None = None
    function: CalledFunction | None = None


class Message(Struct):
    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[MadeCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class Function(Struct):
    name: str
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class Tool(Struct):
    """`type` is left out by Mistral's clients, and is "function" to Mistral and vLLM then."""

    type: str | None = None
    function: Function | None = None


class NamedFunction(Struct):
    name: str


class ToolChoice(Struct):
    type: str
    function: NamedFunction | None = None


class NamedSchema(Struct):
    name: str | None = None
    schema: Object | bool | None = None
    strict: bool | None = None


class ResponseFormat(Struct):
    type: str
    json_schema: NamedSchema | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class Request(Struct):
    """The documented fields of a request; the body that is sent on stays the caller's bytes."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Unit | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: int | None = None
    n: Count | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    reasoning_effort: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: Object | None = None
    mm_processor_kwargs: Object | None = None
    guided_json: Object | str | bool | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str], Meta(min_length=1)] | None = None
    guided_grammar: str | None = None
    structural_tag: str | Object | None = None
    guided_decoding_backend: str | None = None
    guided_whitespace_pattern: str | None = None
    structured_outputs: Object | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


_decoder = msgspec.json.Decoder(Request)
_PLACE = re.compile(r"^(?P<what>.*) - at `(?P<path>[^`]*)`$", re.DOTALL)


def open_ask(raw: bytes) -> Ask:
    """Raises Malformed: what was wrong, where, and what was expected."""
    try:
        request = _decoder.decode(raw)
        body = Body.read(raw)
    except msgspec.ValidationError as fault:
        raise _misfit(str(fault)) from None
    except msgspec.DecodeError as fault:
        raise _not_json(raw, str(fault)) from None
    except UnicodeDecodeError as fault:
        raise Malformed(f"The body is not UTF-8: byte {fault.start} of a string is {fault.object[fault.start]:#04x}.") from None
    except RecursionError:
        raise Malformed("The body is nested too deeply to be read.") from None
    if request.stream_options is not None and not request.stream:
        raise Malformed("`stream_options` may be set only with `stream: true`.", param="stream_options")
    most = request.max_completion_tokens or request.max_tokens
    choices = request.n or 1
    return Ask(
        dialect="openai_chat",
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=request.stream_options is not None and bool(request.stream_options.include_usage),
        episode_id=_episode(request),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=request.user,
        input_tokens=_input_tokens(raw, request),
        output_tokens=None if most is None else most * choices,
        choices=choices,
    )


def _input_tokens(raw: bytes, request: Request) -> int:
    """The whole body counts as text, tools and schemas too, but for what is said in it of media."""
    # Without one of these words no part of a message is anything but text.
    if b"image_url" not in raw and b"input_audio" not in raw and b'"file"' not in raw:
        return text_tokens(len(raw))
    inline_bytes = media = 0
    for message in request.messages:
        for part in message.content if isinstance(message.content, list) else ():
            match part.type:
                case "image_url":
                    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
                    inline_bytes += len(url or "")
                    media += IMAGE
                case "input_audio":
                    inline_bytes += len(part.input_audio.data) if part.input_audio else 0
                    media += AUDIO
                case "file":
                    inline_bytes += len(part.file.file_data or "") if part.file else 0
                    media += FILE
                case _:
                    pass
    return text_tokens(max(0, len(raw) - inline_bytes)) + media


def _episode(request: Request) -> str | None:
    plain, prefixed = request.episode_id, request.episode_id_prefixed
    if "" in (plain, prefixed):
        raise Malformed("`episode_id` is empty: leave it out for a new episode.", param="episode_id")
    if plain and prefixed and plain.lower() != prefixed.lower():
        raise Malformed("`episode_id` and `tensorzero::episode_id` name two episodes.", param="episode_id")
    return plain or prefixed


def _misfit(fault: str) -> Malformed:
    """msgspec says ``Expected `str`, got `int` - at `$.messages[0].content` ``; the root it calls `$`."""
    found = _PLACE.match(fault)
    what, path = (found["what"], found["path"].removeprefix("$").removeprefix(".")) if found else (fault, "")
    if not path:
        missing = re.search(r"missing required field `([^`]*)`", what)
        return Malformed(f"{what}." if missing else f"The body must be a JSON object. {what}.", param=missing[1] if missing else None)
    return Malformed(f"{what} at `{path}`.", param=path)


def _not_json(raw: bytes, fault: str) -> Malformed:
    place = half_pair(raw)
    if place is not None:
        return Malformed(f"The body holds half a surrogate pair (byte {place}): a character was cut in two. Send both halves or none.")
    if "truncated" in fault:
        return Malformed(f"The body is not JSON: it ends too early (byte {len(raw)}).")
    return Malformed(f"The body is not JSON: {fault.removeprefix('JSON is malformed: ')}.")
