"""Text, or a chat, to token ids. The common shape is vLLM's; encode.py has LMDeploy's, which means the same.

Sources: vLLM 0.33 entrypoints/serve/tokenize/protocol.py, docs/sources.md#vllm, #sglang, #lmdeploy, #tgi and #llamacpp, and for SGLang its
openai/serving_tokenize.py; all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse, RequestIgnored
from providers.canonical.raw_json import Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.route import RequestDecoder, Route

# Engines hold token ids in 32 bits: llama.cpp reads a larger one as another (2**33 as 0), and others fail.
TokenId = Annotated[int, Meta(ge=0, lt=2**31)]
_MAX_MODEL_LENGTH = 2**53


class Prompt(Struct):
    """The common request. Only SGLang takes a list of prompts."""

    prompt: str | list[str]
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class Messages(Struct):
    """The common request, for a chat."""

    messages: Annotated[list[dict[str, Raw]], Meta(min_length=1)]
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    return_token_strs: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Raw] | None = None
    tools: list[dict[str, Raw]] | None = None


class Content(Struct):
    """llama.cpp's request: a text, or a list of texts and token ids."""

    content: str | list[str | int]
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None


class Inputs(Struct):
    """TGI's request, which is that of its /generate."""

    inputs: str
    parameters: dict[str, Raw] | None = None


class Input(Struct):
    """llama-cpp-python's request."""

    input: str


_ids_decoder = msgspec.json.Decoder(list[TokenId | list[TokenId]])
_count_decoder = msgspec.json.Decoder(int | list[int])


class Tokenize(Route):
    """/tokenize and /v1/tokenize."""

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

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """The token ids, a list for each of several prompts. `max_model_len` is null where the engine does not report it."""
        body = check_tokens(read_object(raw))
        if Body(meta.request_body).value("return_token_strs") and not body.has_value("token_strs"):
            raise RequestIgnored(
                "The engine returned no token strings; older versions have none. Leave `return_token_strs` out, or choose another model.",
                upstream_status=422,
                param="return_token_strs",
            )
        return self.outbound_response(body)


def check_one_text(value: Any) -> str | None:
    """Returns why engines that take one text in a request refuse `value`, or None if it is one text."""
    return None if isinstance(value, str) else "it takes one text in a request."


def check_tokens(body: Body) -> Body:
    """The common response, completed in place. Raises InvalidUpstreamResponse for ids of another shape and for a wrong count."""
    ids: list[int | list[int]] = decode_field(body, "tokens", _ids_decoder, "token ids")
    counts = [len(each) for each in ids if isinstance(each, list)]
    if counts and len(counts) != len(ids):
        raise InvalidUpstreamResponse("The engine's response mixes token ids with lists of them.")
    actual = counts or len(ids)
    if body.has_value("count") and decode_field(body, "count", _count_decoder, "count of tokens") != actual:
        raise InvalidUpstreamResponse("The engine's count of tokens is not the number of tokens that it returned.")
    body["count"] = actual
    max_model_len = body.value("max_model_len")
    # SGLang reports 1e30, or -1, for a tokenizer that names no length.
    body["max_model_len"] = max_model_len if isinstance(max_model_len, int) and 0 < max_model_len < _MAX_MODEL_LENGTH else None
    body.setdefault("token_strs", None)
    return body
