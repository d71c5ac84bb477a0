"""The fields of a request to TensorZero's POST /inference. Unknown fields are refused, as TensorZero refuses them.

Source: docs/gateway/api-reference/inference.mdx of tensorzero/tensorzero at 7a6159a, and what the client 2026.6.0 sends, read 2026-11.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

from providers.canonical.raw_json import NULL

Object = dict[str, Raw]
Name = Annotated[str, Meta(min_length=1)]
NonNegative = Annotated[int, Meta(ge=0)]


def _null() -> Raw:
    """A factory, as the schema of the documentation cannot show JSON as a default."""
    return NULL


class Summary(Struct):
    """A piece of a summary of a thought."""

    text: str
    type: str = "summary_text"


class Block(Struct):
    """A content block of any type. Older clients have type `image`, leave `file_type` out, and send arguments of templates as `text`.

    `data`: a file's base64, or the block of type `unknown` as its provider wrote it.
    """

    type: Literal["text", "raw_text", "template", "tool_call", "tool_result", "thought", "file", "image", "unknown"]
    text: str | Object | None = None
    arguments: Object | str | None = None
    value: str | None = None
    name: str | None = None
    id: str | None = None
    raw_name: str | None = None
    raw_arguments: str | None = None
    result: str | None = None
    signature: str | None = None
    summary: list[Summary] | None = None
    provider_type: str | None = None
    file_type: Literal["url", "base64", "object_storage_pointer", "object_storage", "object_storage_error"] | None = None
    url: str | None = None
    source_url: str | None = None
    data: Raw = field(default_factory=_null)
    mime_type: str | None = None
    detail: Literal["low", "high", "auto"] | None = None
    filename: str | None = None
    model_name: str | None = None
    provider_name: str | None = None


class Message(Struct, forbid_unknown_fields=True):
    """A message. An object is what a template is rendered with: older clients send that."""

    role: Literal["user", "assistant"]
    content: str | list[Block] | Object


class Input(Struct, forbid_unknown_fields=True):
    """The chat of a request. `system`: an object is what the system template is rendered with."""

    messages: list[Message] = []
    system: str | Object | None = None


class ChatParams(Struct, forbid_unknown_fields=True):
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    json_mode: Literal["off", "on", "strict", "tool", "implicit_tool"] | None = None
    stop_sequences: list[str] | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    thinking_budget_tokens: NonNegative | None = None
    verbosity: str | None = None


class Params(Struct, forbid_unknown_fields=True):
    """Parameters by type of variant. There is one type here."""

    chat_completion: ChatParams | None = None


class Tool(Struct):
    """A tool that is defined in the request. `format`: of one that takes free text, type `openai_custom`."""

    name: Name
    type: Literal["function", "client_side_function", "openai_custom"] = "function"
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None
    format: Object | None = None


class SpecificTool(Struct, forbid_unknown_fields=True):
    specific: str


class CacheOptions(Struct, forbid_unknown_fields=True):
    enabled: Literal["on", "off", "read_only", "write_only"] | None = None
    max_age_s: NonNegative | None = None


class Request(Struct, forbid_unknown_fields=True):
    """The body of a request. `internal`: the client's own mark, which has no meaning for an inference."""

    input: Input
    function_name: Name | None = None
    model_name: Name | None = None
    episode_id: str | None = None
    namespace: Name | None = None
    stream: bool | None = None
    params: Params = field(default_factory=Params)
    variant_name: Name | None = None
    dryrun: bool | None = None
    internal: bool | None = None
    tags: dict[str, str] = {}
    allowed_tools: list[str] | None = None
    additional_tools: list[Tool] | None = None
    provider_tools: list[Object] | None = None
    tool_choice: Literal["none", "off", "auto", "required"] | SpecificTool | None = None
    parallel_tool_calls: bool | None = None
    output_schema: Object | None = None
    credentials: dict[str, Raw] | None = None
    cache_options: CacheOptions | None = None
    extra_body: list[Object] | None = None
    extra_headers: list[Object] | None = None
    include_original_response: bool | None = None
    include_raw_response: bool | None = None
    include_raw_usage: bool | None = None
    include_aggregated_response: bool | None = None
    internal_dynamic_variant_config: Object | None = None
