"""Token ids to text. The common response is vLLM's `prompt`, beside the engine's own field (`text`, `content`).

Sources: as in tokenize.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.tokenize import TokenId


class Tokens(Struct):
    """The common request. Only SGLang takes a list of lists."""

    tokens: list[TokenId | list[TokenId]]
    skip_special_tokens: bool | None = None


_text_decoder = msgspec.json.Decoder(str | list[str])


def check_one_list(tokens: Any) -> str | None:
    """Returns why engines that take one list of token ids refuse these, or None if they are one list."""
    return "it takes one list of token ids in a request." if tokens and isinstance(tokens[0], list) else None


# What engines write of a token outside of their vocabulary: llama.cpp b11549, by GCC's library and by itself; SentencePiece.
UNKNOWN_TOKEN_MARKERS = ("_M_range_check", "invalid token", "out of range")


def text_converter(field_name: str) -> Callable[[bytes, Body], bytes]:
    """Reads a response whose text has this name. The caller gets it under both names."""

    def convert(raw: bytes, request_body: Body) -> bytes:
        body = read_object(raw)
        body["prompt"] = body.get(field_name)
        return body.write()

    return convert


class Detokenize(Route):
    """/detokenize."""

    name: ClassVar[str] = "detokenize"
    purpose: ClassVar[str] = "converts token ids to text"
    is_free_of_charge: ClassVar[bool] = True
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {"tokens": msgspec.json.Decoder(Tokens)}

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        body = read_object(raw)
        decode_field(body, "prompt", _text_decoder, "text")
        return self.outbound_response(body)
