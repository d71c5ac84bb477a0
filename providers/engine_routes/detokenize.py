"""Token ids to text. The common answer is vLLM's `prompt`; it stands beside what the engine itself says (`text`, `content`).

Sources: as in tokenize.py.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import RouteBinding
from providers.engine_routes.tokenize import TokenId


class Tokens(Struct):
    """A list of lists is SGLang's."""

    tokens: list[TokenId | list[TokenId]]
    skip_special_tokens: bool | None = None


_text_decoder = msgspec.json.Decoder(str | list[str])


def _check_one_list(tokens: Any) -> str | None:
    return "it takes one list of token ids in a request." if tokens and isinstance(tokens[0], list) else None


def _text_converter(field_name: str) -> Any:
    """Reads an answer whose text has this name. It is said in both."""

    def convert(raw: bytes, request_body: Body) -> bytes:
        body = read_object(raw)
        body["prompt"] = body.get(field_name)
        return body.write()

    return convert


_ONE_LIST = {"tokens": _check_one_list}
_TOKENS_FIELD_NAME = {"tokens": "tokens"}
# vLLM's text has the special tokens in it, and it does nothing about a wish to have them out.
_NEUTRAL_VALUES = {"skip_special_tokens": False}
# What they say of a token that is not in their vocabulary: llama.cpp b11549, in GCC's words, and in its own; SentencePiece.
_UNKNOWN_TOKEN_MARKERS = ("_M_range_check", "invalid token", "out of range")
_VLLM_BINDING = RouteBinding(
    name="/detokenize",
    unsupported_fields=frozenset(_NEUTRAL_VALUES),
    value_checks=_ONE_LIST,
    neutral_values=_NEUTRAL_VALUES,
    caller_error_markers=_UNKNOWN_TOKEN_MARKERS,
)


class Detokenize(Route):
    name: ClassVar[str] = "detokenize"
    purpose: ClassVar[str] = "makes text of token ids"
    is_free_of_charge: ClassVar[bool] = True
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {"tokens": msgspec.json.Decoder(Tokens)}
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "vllm": {"tokens": _VLLM_BINDING},
        "sandbox": {"tokens": _VLLM_BINDING},
        "openai": {"tokens": RouteBinding(name="/detokenize", caller_error_markers=_UNKNOWN_TOKEN_MARKERS)},
        # Left out, it would leave out special tokens, which are a part of the text to all others.
        "sglang": {
            "tokens": RouteBinding(
                name="/detokenize",
                field_names={**_TOKENS_FIELD_NAME, "skip_special_tokens": "skip_special_tokens"},
                default_values={"skip_special_tokens": False},
                convert_response=_text_converter("text"),
                caller_error_markers=_UNKNOWN_TOKEN_MARKERS,
            )
        },
        # llama-cpp-python has /extras/detokenize, and ends over a token that is not in its vocabulary (0.3.36): nobody is let near it.
        "llamacpp": {
            "tokens": RouteBinding(
                name="/detokenize",
                field_names=_TOKENS_FIELD_NAME,
                value_checks=_ONE_LIST,
                neutral_values=_NEUTRAL_VALUES,
                convert_response=_text_converter("content"),
                caller_error_markers=_UNKNOWN_TOKEN_MARKERS,
            )
        },
    }

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        body = read_object(raw)
        decode_field(body, "prompt", _text_decoder, "text")
        return self.outbound_response(body)
