"""The request bodies of OpenAI's routes, with the extra fields of engines and our own `sandbox` object.

Only fields with an effect are declared. Other fields are accepted, ignored and listed in the header `x-sandbox-ignored`.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from app.sandbox.protocol.errors import InvalidRequest

PositiveInt = Annotated[int, Meta(ge=1)]
DelayMs = Annotated[int, Meta(ge=0, le=600_000)]


class Control(Struct, frozen=True, forbid_unknown_fields=True):
    """The `sandbox` object of a request, which injects faults (docs/sandbox.md). An unknown key in it is an error."""

    delay_ms: DelayMs = 0
    chunk_delay_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0
    fail: Annotated[int, Meta(ge=400, le=599)] | Literal["close"] | None = None
    retry_after_s: Annotated[int, Meta(ge=0, le=86_400)] = 1
    die_after: Annotated[int, Meta(ge=0)] | None = None
    die_how: Literal["cut", "error", "stall"] = "cut"
    say: str | None = None
    tokens: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    calls: Annotated[int, Meta(ge=0, le=64)] | None = None
    reasoning: bool | None = None
    finish_reason: str | None = None
    usage: bool = True
    done: bool = True


class StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class NamedSchema(Struct, frozen=True):
    # OpenAI requires it. None is an error, which read_response_format() raises with the field's path.
    schema: Any = None
    name: str | None = None


class ResponseFormat(Struct, frozen=True):
    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: NamedSchema | None = None
    format: Any = None
    structures: Any = None
    triggers: Any = None


class StructuredOutputs(Struct, frozen=True):
    json: Any = None
    json_object: bool = False
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    structural_tag: str | dict[str, Any] | None = None
    whitespace_pattern: str | None = None


class GenerationBody(Struct, frozen=True, kw_only=True):
    """The fields that chats and completions have in common."""

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: PositiveInt | None = None
    min_tokens: Annotated[int, Meta(ge=0)] | None = None
    ignore_eos: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    seed: int | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stop: str | Annotated[list[str], Meta(max_length=16)] | None = None
    response_format: ResponseFormat | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None
    structural_tag: str | dict[str, Any] | None = None
    structured_outputs: StructuredOutputs | None = None
    sandbox: Control | None = None


class TextPart(Struct, frozen=True, tag="text", tag_field="type"):
    text: str


class RefusalPart(Struct, frozen=True, tag="refusal", tag_field="type"):
    refusal: str


class ImageUrl(Struct, frozen=True):
    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(Struct, frozen=True, tag="image_url", tag_field="type"):
    image_url: ImageUrl | str


class FileData(Struct, frozen=True):
    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None


class FilePart(Struct, frozen=True, tag="file", tag_field="type"):
    file: FileData


class AudioData(Struct, frozen=True):
    data: str
    format: str


class AudioPart(Struct, frozen=True, tag="input_audio", tag_field="type"):
    input_audio: AudioData


Part = TextPart | RefusalPart | ImagePart | FilePart | AudioPart


class CalledFunction(Struct, frozen=True):
    name: str
    arguments: str = ""


class ToolCall(Struct, frozen=True):
    id: str
    function: CalledFunction


class Message(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Function(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Struct, frozen=True):
    type: Literal["function"]
    function: Function


class FunctionName(Struct, frozen=True):
    name: str


class NamedTool(Struct, frozen=True):
    type: Literal["function"]
    function: FunctionName


class ChatBody(GenerationBody, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: PositiveInt | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool | None = None


class CompletionBody(GenerationBody, frozen=True, kw_only=True):
    prompt: str | list[str | int | list[int]]
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    echo: bool = False


class EmbeddingBody(Struct, frozen=True, kw_only=True):
    model: str
    input: str | list[str | int | list[int]]
    dimensions: Annotated[int, Meta(ge=1, le=4096)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    sandbox: Control | None = None


B = TypeVar("B", bound=Struct)


def read_body(raw: bytes, kind: type[B]) -> B:
    """Decodes the body. Raises InvalidRequest with the byte (bad JSON) or the path (bad type) of the first error."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as fault:
        problem, _, path = str(fault).partition(" - at `")
        field_path = path.removesuffix("`").removeprefix("$").removeprefix(".")
        raise InvalidRequest(f"{field_path}: {problem}" if field_path else problem, param=field_path or None) from fault
    except msgspec.DecodeError as fault:
        raise InvalidRequest(f"The body is not valid JSON: {fault}") from fault
    except RecursionError as fault:
        raise InvalidRequest("The body is nested too deeply.") from fault


def ignored_keys(raw: bytes, kind: type[Struct], nested_in: str | None = None) -> list[str]:
    """The keys without an effect that the caller sent, in the body or in the object named `nested_in` inside it.

    Only for a body that read_body() has accepted.
    """
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    sent = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    if nested_in is not None:
        sent = msgspec.json.decode(sent[nested_in], type=dict[str, msgspec.Raw])
    return sorted(set(sent) - known)
