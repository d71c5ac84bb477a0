"""Text, or a chat, to token ids. The common shape is vLLM's; `encode` below is LMDeploy's, which means the same.

Sources: vLLM 0.33 entrypoints/serve/tokenize/protocol.py, /reference/engines.md 1.1 to 1.5, and for SGLang its openai/serving_tokenize.py;
all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse, RequestIgnored
from providers.canonical.raw_json import Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_list, read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import RouteBinding

# Engines hold them in 32 bits: llama.cpp takes what is larger for another (2**33 for 0), and others fail.
TokenId = Annotated[int, Meta(ge=0, lt=2**31)]
_MAX_MODEL_LENGTH = 2**53


class Prompt(Struct):
    """vLLM's; a list of prompts is SGLang's."""

    prompt: str | list[str]
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class Messages(Struct):
    messages: Annotated[list[dict[str, Raw]], Meta(min_length=1)]
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    return_token_strs: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Raw] | None = None
    tools: list[dict[str, Raw]] | None = None


class Content(Struct):
    """llama.cpp's: a text, or texts and token ids in turn."""

    content: str | list[str | int]
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None


class Inputs(Struct):
    """TGI's, which is a whole request to generate."""

    inputs: str
    parameters: dict[str, Raw] | None = None


class Input(Struct):
    """llama-cpp-python's."""

    input: str


class Encoding(Struct):
    """LMDeploy's."""

    input: str | list[str]
    do_preprocess: bool | None = None
    add_bos: bool | None = None


_ids_decoder = msgspec.json.Decoder(list[TokenId | list[TokenId]])
_count_decoder = msgspec.json.Decoder(int | list[int])


def check_one_text(value: Any) -> str | None:
    return None if isinstance(value, str) else "it takes one text in a request."


def _ids_converter(ids: str, count: str | None = None, strings: str | None = None) -> Any:
    """Reads an object whose token ids, their number and their texts have these names."""

    def convert(raw: bytes, request_body: Body) -> bytes:
        response = read_object(raw)
        body = Body({key: value for key, value in response.items() if key not in (ids, count)})
        body["tokens"] = response.get(ids)
        if count is not None:
            body["count"] = response.get(count)
        return body.write()

    return convert


def _require_count(raw: bytes, request_body: Body) -> bytes:
    """Of an engine that is not known: llama.cpp, for one, passes over `prompt` and `messages` and tells no tokens, with 200."""
    response = read_object(raw)
    if not response.has_value("count"):
        raise InvalidUpstreamResponse("it told no `count` of tokens.")
    if not response.value("tokens") and any(request_body.value(field) for field in ("prompt", "messages", "input")):
        raise InvalidUpstreamResponse("it told no tokens.")
    return raw


def _convert_pieces(raw: bytes, request_body: Body) -> bytes:
    """llama.cpp's {"tokens": [1, ...]}, or with pieces [{"id": 1, "piece": "a" or [226]}]: bytes that are no text of their own."""
    response = read_object(raw)
    if not request_body.value("return_token_strs"):
        return response.write()
    pieces = decode_field(response, "tokens", _pieces_decoder, "tokens with their pieces")
    response["tokens"] = [each.id for each in pieces]
    response["token_strs"] = [
        each.piece if isinstance(each.piece, str) else "".join(f"<0x{byte:02X}>" for byte in each.piece) for each in pieces
    ]
    return response.write()


class _Piece(Struct):
    id: TokenId
    piece: str | list[Annotated[int, Meta(ge=0, le=255)]]


_pieces_decoder = msgspec.json.Decoder(list[_Piece])


def _convert_tgi_tokens(raw: bytes, request_body: Body) -> bytes:
    """TGI's [{"id", "text", "start", "stop"}]; of a chat, beside the text that its template made."""
    if request_body.has_value("messages"):
        tokens = decode_field(read_object(raw), "tokenize_response", _tgi_tokens_decoder, "tokens")
    else:
        tokens = decode_field({"tokens": read_list(raw)}, "tokens", _tgi_tokens_decoder, "tokens")
    texts = [each.text for each in tokens] if request_body.value("return_token_strs") else None
    return msgspec.json.encode({"tokens": [each.id for each in tokens], "token_strs": texts})


class _TgiToken(Struct):
    id: TokenId
    text: str


_tgi_tokens_decoder = msgspec.json.Decoder(list[_TgiToken])

_TOKEN_STRING_FIELDS = frozenset({"return_token_strs"})
_NO_TOKEN_STRINGS = {"return_token_strs": False}
_ONE_TEXT = {"prompt": check_one_text}
_PROMPT_FIELD_NAMES = {"prompt": "prompt", "add_special_tokens": "add_special_tokens"}

_VLLM_PROMPT_BINDING = RouteBinding(name="/tokenize", value_checks=_ONE_TEXT)
_SGLANG_CHAT_FIELDS = (
    *("messages", "tools", "tool_choice", "reasoning_effort", "continue_final_message", "chat_template_kwargs"),
    *("separate_reasoning", "stream_reasoning"),
)

_SANDBOX_FIELD_NAMES = {field: field for field in ("return_token_strs", "sandbox")}
_SANDBOX_CHAT_BINDING = RouteBinding(
    name="/tokenize",
    field_names={field: field for field in ("messages", "add_special_tokens", "add_generation_prompt", "continue_final_message")}
    | _SANDBOX_FIELD_NAMES,
)


class Tokenize(Route):
    name: ClassVar[str] = "tokenize"
    purpose: ClassVar[str] = "tokenizes"
    is_free_of_charge: ClassVar[bool] = True
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "prompt": msgspec.json.Decoder(Prompt),
        "messages": msgspec.json.Decoder(Messages),
        "content": msgspec.json.Decoder(Content),
        "inputs": msgspec.json.Decoder(Inputs),
        "input": msgspec.json.Decoder(Input),
    }
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "vllm": {"prompt": _VLLM_PROMPT_BINDING, "messages": RouteBinding(name="/tokenize")},
        "sandbox": {
            "prompt": RouteBinding(name="/tokenize", field_names=_PROMPT_FIELD_NAMES | _SANDBOX_FIELD_NAMES, value_checks=_ONE_TEXT),
            "messages": _SANDBOX_CHAT_BINDING,
        },
        "openai": {
            "prompt": RouteBinding(name="/tokenize", convert_response=_require_count),
            "messages": RouteBinding(name="/tokenize", convert_response=_require_count),
        },
        "sglang": {
            "prompt": RouteBinding(name="/tokenize", field_names=_PROMPT_FIELD_NAMES, neutral_values=_NO_TOKEN_STRINGS),
            # With messages it throws add_special_tokens away, and its template always opens the answer.
            "messages": RouteBinding(
                name="/tokenize",
                field_names={field: field for field in _SGLANG_CHAT_FIELDS},
                neutral_values={**_NO_TOKEN_STRINGS, "add_special_tokens": False, "add_generation_prompt": True},
            ),
        },
        "lmdeploy": {
            "prompt": RouteBinding(
                name="/v1/encode",
                field_names={"prompt": "input", "add_special_tokens": "add_bos"},
                neutral_values=_NO_TOKEN_STRINGS,
                default_values={"do_preprocess": False},
                sends_model=False,
                convert_response=_ids_converter("input_ids", "length"),
            )
        },
        "llamacpp": {
            # Left out, add_special is false there, and what it means to the caller is true.
            "prompt": RouteBinding(
                name="/tokenize",
                field_names={"prompt": "content", "add_special_tokens": "add_special", "return_token_strs": "with_pieces"},
                value_checks=_ONE_TEXT,
                default_values={"add_special": True},
                convert_response=_convert_pieces,
            ),
            "content": RouteBinding(name="/tokenize", is_native=True),
        },
        "tgi": {
            # It adds special tokens to every prompt, and to no chat, whose template has them.
            "prompt": RouteBinding(
                name="/tokenize",
                field_names={"prompt": "inputs"},
                gateway_fields=_TOKEN_STRING_FIELDS,
                value_checks=_ONE_TEXT,
                neutral_values={"add_special_tokens": True},
                convert_response=_convert_tgi_tokens,
            ),
            "messages": RouteBinding(
                name="/chat_tokenize",
                field_names={field: field for field in ("messages", "tools", "tool_choice")},
                gateway_fields=_TOKEN_STRING_FIELDS,
                neutral_values={"add_special_tokens": False, "add_generation_prompt": True, "continue_final_message": False},
                convert_response=_convert_tgi_tokens,
            ),
            "inputs": RouteBinding(name="/tokenize", is_native=True),
        },
        "llamacpp_python": {
            "prompt": RouteBinding(
                name="/extras/tokenize",
                field_names={"prompt": "input"},
                value_checks=_ONE_TEXT,
                neutral_values={**_NO_TOKEN_STRINGS, "add_special_tokens": True},
            ),
            "input": RouteBinding(name="/extras/tokenize", is_native=True),
        },
    }

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """Of several prompts, a list of ids each. How long a prompt may be is null where the engine does not tell it."""
        body = check_tokens(read_object(raw))
        if Body(meta.request_body).value("return_token_strs") and not body.has_value("token_strs"):
            raise RequestIgnored(
                "The engine told no token strings, which older ones do not. Leave `return_token_strs` out, or choose another model.",
                upstream_status=422,
                param="return_token_strs",
            )
        return self.outbound_response(body)


def check_tokens(body: Body) -> Body:
    ids: list[int | list[int]] = decode_field(body, "tokens", _ids_decoder, "token ids")
    counts = [len(each) for each in ids if isinstance(each, list)]
    if counts and len(counts) != len(ids):
        raise InvalidUpstreamResponse("The engine's answer mixes token ids with lists of them.")
    actual = counts or len(ids)
    if body.has_value("count") and decode_field(body, "count", _count_decoder, "count of tokens") != actual:
        raise InvalidUpstreamResponse("The engine's count of tokens is not that of the tokens which it told.")
    body["count"] = actual
    max_model_len = body.value("max_model_len")
    # SGLang tells 1e30 of a tokenizer that names no length, or -1.
    body["max_model_len"] = max_model_len if isinstance(max_model_len, int) and 0 < max_model_len < _MAX_MODEL_LENGTH else None
    body.setdefault("token_strs", None)
    return body


def _to_encode_binding(prompt_binding: RouteBinding) -> RouteBinding:
    """A way to tokenize a prompt, for those who ask as LMDeploy is asked."""
    engine_names = (
        {"prompt": "prompt", "add_special_tokens": "add_special_tokens"}
        if prompt_binding.field_names is None
        else prompt_binding.field_names
    )
    field_names = {"input": engine_names["prompt"]}
    neutral_values: dict[str, Any] = {"do_preprocess": False}
    if "add_special_tokens" in engine_names:
        field_names["add_bos"] = engine_names["add_special_tokens"]
    else:
        neutral_values["add_bos"] = True
    return RouteBinding(
        name=prompt_binding.name,
        field_names=field_names,
        neutral_values=neutral_values,
        value_checks={"input": prompt_binding.value_checks["prompt"]} if "prompt" in prompt_binding.value_checks else {},
        default_values=prompt_binding.default_values,
        sends_model=prompt_binding.sends_model,
        gateway_fields=prompt_binding.gateway_fields,
        convert_response=prompt_binding.convert_response,
    )


class Encode(Route):
    """LMDeploy's /v1/encode."""

    name: ClassVar[str] = "encode"
    purpose: ClassVar[str] = "encodes texts as token ids"
    is_free_of_charge: ClassVar[bool] = True
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {"input": msgspec.json.Decoder(Encoding)}
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        **{adapter: {"input": _to_encode_binding(ways["prompt"])} for adapter, ways in Tokenize.bindings.items()},
        "lmdeploy": {"input": RouteBinding(name="/v1/encode", sends_model=False, convert_response=_ids_converter("input_ids", "length"))},
    }

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        body = check_tokens(read_object(raw))
        return self.outbound_response(Body({"input_ids": body["tokens"], "length": body["count"]}))
