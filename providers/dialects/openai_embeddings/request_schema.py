"""The documented fields of a request to /v1/embeddings, which are checked. Unknown fields pass.

Sources: https://platform.openai.com/docs/api-reference/embeddings/create, and for what vLLM adds (`messages` in place of `input`,
`embed_dtype`, `endianness`) https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, both read 2026-11.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

Text = Annotated[str, Meta(min_length=1)]
TokenId = Annotated[int, Meta(ge=0)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1)]
Input = Text | TokenId | TokenIds


class Request(Struct):
    """The documented fields of a request. The body that is sent on stays the caller's bytes."""

    model: str
    input: Text | Annotated[list[Input], Meta(min_length=1)] | None = None
    messages: Annotated[list[Raw], Meta(min_length=1)] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    embed_dtype: str | None = None
    endianness: str | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    stream: bool | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")
