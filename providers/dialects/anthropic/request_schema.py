"""The documented fields of requests to Anthropic's /v1/messages and count_tokens. Unknown fields are allowed.

Sources: https://docs.claude.com/en/api/messages and the types of anthropic-python 2.11, read 2026-11.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

from providers.canonical.tool_schemas import SchemaHead

UnitInterval = Annotated[float, Meta(ge=0, le=1)]
ToolName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
Object = dict[str, Raw]


class CacheControl(Struct):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Source(Struct):
    """The source of an image or a document. `content`: a document made of blocks."""

    type: Literal["base64", "url", "file", "text", "content"]
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: "str | list[Block] | None" = None


class Block(Struct):
    """A content block of any type; unknown types are allowed. The `source` of a search result is a string."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Object | None = None
    tool_use_id: str | None = None
    content: "str | list[Block] | Object | None" = None
    is_error: bool | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None
    file_id: str | None = None
    citations: list[Object] | Object | None = None
    cache_control: CacheControl | None = None


class Message(Struct):
    """A message. The newest models accept system messages between the others."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Struct):
    """A tool. The caller runs one without a `type` or of type "custom"; Anthropic runs or defines all others."""

    type: str | None = None
    name: ToolName | None = None
    description: str | None = None
    input_schema: SchemaHead | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class ToolChoice(Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Struct):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=1024)] | None = None
    display: str | None = None


class OutputFormat(Struct):
    type: Literal["json_schema"]
    schema: Object


class OutputConfig(Struct):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class Metadata(Struct):
    user_id: str | None = None


class CountTokensRequest(Struct, kw_only=True):
    """A request to count its tokens. `output_format` is the older name of output_config.format."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    system: str | list[Block] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    mcp_servers: list[Object] | None = None
    context_management: Object | None = None
    cache_control: CacheControl | None = None
    stream: bool | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


class MessagesRequest(CountTokensRequest, kw_only=True):
    """A request for a message. With `max_tokens` 0 it fills the cache and returns no content."""

    max_tokens: Annotated[int, Meta(ge=0)]
    temperature: UnitInterval | None = None
    top_p: UnitInterval | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    stop_sequences: list[str] | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    container: str | Object | None = None
    inference_geo: str | None = None
    speed: str | None = None
