"""The documented fields of a request to /v1/responses, which are checked. Unknown fields pass.

Source: https://platform.openai.com/docs/api-reference/responses/create, read 2026-11.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

from providers.canonical.tool_schemas import SchemaHead
from providers.dialects.openai.request_schema import PositiveInt, RawObject


class InputAudio(Struct):
    data: str
    format: str


class Part(Struct):
    """A part of a message's content or of a tool result. For parts of hosted tools only the types of these fields are checked."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    filename: str | None = None
    detail: str | None = None
    input_audio: InputAudio | None = None


class Item(Struct):
    """An input item. Items of hosted tools use some of these names for objects of their own."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | RawObject | list[Raw] | None = None
    input: str | RawObject | None = None
    output: str | list[Part] | RawObject | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None
    tools: list[Raw] | None = None


class ToolFormat(Struct):
    """The input format of a custom tool: text, or a grammar."""

    type: str
    syntax: str | None = None
    definition: str | None = None


class Tool(Struct):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: SchemaHead | None = None
    strict: bool | None = None
    format: ToolFormat | None = None
    tools: "list[Tool] | None" = None


class AllowedTool(Struct):
    type: str
    name: str | None = None


class ToolChoice(Struct):
    type: str
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[AllowedTool] | None = None


class Format(Struct):
    type: str
    name: str | None = None
    schema: RawObject | None = None
    description: str | None = None
    strict: bool | None = None


class Text(Struct):
    format: Format | None = None
    verbosity: str | None = None


class Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class StreamOptions(Struct):
    include_obfuscation: bool | None = None


class CompactRequest(Struct):
    """The documented fields of a request to /v1/responses/compact."""

    model: str
    input: str | list[Item] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None


class Request(Struct):
    """The documented fields of a request. The body that is sent on stays the caller's bytes."""

    model: str
    input: str | list[Item]
    instructions: str | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    include: list[str] | None = None
    max_output_tokens: PositiveInt | None = None
    max_tool_calls: int | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    conversation: str | RawObject | None = None
    prompt: RawObject | None = None
    background: bool | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
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
    structured_outputs: RawObject | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")
