"""Engine routes of TGI. Source: docs/sources.md#tgi, read 2026-11."""

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import Body
from providers.engine_routes.read_response import decode_field, read_list, read_object
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.tokenize import TokenId, check_one_text

# Its response always has the token strings.
_TOKEN_STRING_FIELDS = frozenset({"return_token_strs"})


class _Token(Struct):
    """A token of TGI's, without its position."""

    id: TokenId
    text: str


_tokens_decoder = msgspec.json.Decoder(list[_Token])


def _convert_tokens(raw: bytes, request_body: Body) -> bytes:
    """Reads TGI's [{"id", "text", "start", "stop"}]; for a chat it is beside the text that the template made."""
    if request_body.has_value("messages"):
        tokens = decode_field(read_object(raw), "tokenize_response", _tokens_decoder, "tokens")
    else:
        tokens = decode_field({"tokens": read_list(raw)}, "tokens", _tokens_decoder, "tokens")
    texts = [each.text for each in tokens] if request_body.value("return_token_strs") else None
    return msgspec.json.encode({"tokens": [each.id for each in tokens], "token_strs": texts})


TGI_ROUTES: EngineRoutes = {
    "tokenize": {
        # It adds special tokens to every prompt, and to no chat, whose template has them.
        "prompt": RouteBinding(
            name="/tokenize",
            field_names={"prompt": "inputs"},
            gateway_fields=_TOKEN_STRING_FIELDS,
            value_checks={"prompt": check_one_text},
            neutral_values={"add_special_tokens": True},
            convert_response=_convert_tokens,
        ),
        "messages": RouteBinding(
            name="/chat_tokenize",
            field_names={field: field for field in ("messages", "tools", "tool_choice")},
            gateway_fields=_TOKEN_STRING_FIELDS,
            neutral_values={"add_special_tokens": False, "add_generation_prompt": True, "continue_final_message": False},
            convert_response=_convert_tokens,
        ),
        "inputs": RouteBinding(name="/tokenize", is_native=True),
    }
}
