"""Reading a request to /v1/embeddings: every documented field is checked, unknown ones pass.

Sources: https://platform.openai.com/docs/api-reference/embeddings/create, and for what vLLM adds (`messages` in place of `input`,
`embed_dtype`, `endianness`) https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, both read 2026-11.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest

Text = Annotated[str, Meta(min_length=1)]
TokenId = Annotated[int, Meta(ge=0)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1)]
Input = Text | TokenId | TokenIds


class Request(Struct):
    """The documented fields of a request; the body that is sent on stays the caller's bytes."""

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


_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises Malformed: what was wrong, where, and what was expected."""
    request, body = parse_body(raw, _decoder)
    if request.stream:
        raise InvalidRequest("Embeddings are not streamed: leave `stream` out.", param="stream")
    if request.input is None and request.messages is None:
        raise InvalidRequest("Object missing required field `input`.", param="input")
    return InboundRequest(
        dialect="openai_embeddings",
        body=body,
        model=request.model,
        stream=False,
        wants_usage=True,
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=request.user,
        input_tokens=_input_tokens(request),
        output_tokens=0,
        choices=1,
    )


def _input_tokens(request: Request) -> int:
    message_tokens = sum(text_tokens(len(bytes(message))) for message in request.messages or ())
    match request.input:
        case None:
            return message_tokens
        case str(text):
            return message_tokens + text_tokens(len(text.encode()))
        case inputs:
            _check_same_kind(inputs)
            return message_tokens + sum(_estimate_tokens(each) for each in inputs)


def _estimate_tokens(item: str | int | Sequence[int]) -> int:
    match item:
        case str():
            return text_tokens(len(item.encode()))
        case int():
            return 1
        case _:
            return len(item)


def _check_same_kind(inputs: Sequence[str | int | Sequence[int]]) -> None:
    kind = type(inputs[0])
    for index, each in enumerate(inputs):
        if type(each) is not kind:
            raise InvalidRequest(
                f"`input[{index}]` is {_KIND_NAMES[type(each)]}, where `input[0]` is {_KIND_NAMES[kind]}: "
                "send texts, or token ids, or lists of token ids.",
                param=f"input[{index}]",
            )


_KIND_NAMES: Mapping[type, str] = {str: "a text", int: "a token id", list: "a list of token ids"}
