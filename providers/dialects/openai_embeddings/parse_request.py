"""Parses a request to /v1/embeddings."""

from collections.abc import Mapping, Sequence

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest
from providers.dialects.openai_embeddings.request_schema import Request

_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected."""
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
