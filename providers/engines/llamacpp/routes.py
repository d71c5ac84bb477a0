"""Engine routes of llama.cpp's server. Sources: docs/sources.md#llamacpp; tools/server; read 2026-11."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from providers.canonical.raw_json import Body
from providers.engine_routes.detokenize import UNKNOWN_TOKEN_MARKERS, check_one_list, text_converter
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.rerank import GATEWAY_FIELDS, TEXTS_ONLY
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.tokenize import TokenId, check_one_text


class _Piece(Struct):
    """A token with its text, or its bytes where they are no text of their own."""

    id: TokenId
    piece: str | list[Annotated[int, Meta(ge=0, le=255)]]


_pieces_decoder = msgspec.json.Decoder(list[_Piece])


def _convert_pieces(raw: bytes, request_body: Body) -> bytes:
    """Reads llama.cpp's {"tokens": [1, ...]}, or with pieces [{"id": 1, "piece": "a" or [226]}]."""
    response = read_object(raw)
    if not request_body.value("return_token_strs"):
        return response.write()
    pieces = decode_field(response, "tokens", _pieces_decoder, "tokens with their pieces")
    response["tokens"] = [each.id for each in pieces]
    response["token_strs"] = [
        each.piece if isinstance(each.piece, str) else "".join(f"<0x{byte:02X}>" for byte in each.piece) for each in pieces
    ]
    return response.write()


LLAMACPP_ROUTES: EngineRoutes = {
    "tokenize": {
        "prompt": RouteBinding(
            name="/tokenize",
            field_names={"prompt": "content", "add_special_tokens": "add_special", "return_token_strs": "with_pieces"},
            value_checks={"prompt": check_one_text},
            # Its default is false; the common default is true.
            default_values={"add_special": True},
            convert_response=_convert_pieces,
        ),
        "content": RouteBinding(name="/tokenize", is_native=True),
    },
    "detokenize": {
        "tokens": RouteBinding(
            name="/detokenize",
            field_names={"tokens": "tokens"},
            value_checks={"tokens": check_one_list},
            neutral_values={"skip_special_tokens": False},
            convert_response=text_converter("content"),
            caller_error_markers=UNKNOWN_TOKEN_MARKERS,
        )
    },
    "rerank": {
        "documents": RouteBinding(
            name="/v1/rerank",
            field_names={"query": "query", "documents": "documents"},
            value_checks=TEXTS_ONLY,
            gateway_fields=GATEWAY_FIELDS,
        ),
        "texts": RouteBinding(name="/v1/rerank", is_native=True),
    },
}
