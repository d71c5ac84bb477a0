"""What a model makes of texts without writing any: /pooling and /classify in vLLM's shape, and SGLang's /encode in its own.

Sources: vLLM 0.33 entrypoints/pooling; LMDeploy 0.18 serve/openai (pooling); SGLang's http_server.py (/encode, /classify) and
openai/protocol.py (ClassifyRequest); all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import RouteBinding


class Input(Struct):
    """The bytes that vLLM could answer with are none that a gateway can read."""

    input: Annotated[str, Meta(min_length=1)] | Annotated[list[str | int | list[int]], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None


class Messages(Struct):
    messages: Annotated[list[Raw], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None


class Data(Struct):
    """What a plugin of vLLM's reads."""

    data: Raw


class SGLangText(Struct):
    text: str | list[str]


class SGLangIds(Struct):
    input_ids: list[int | list[int]]


_data_decoder = msgspec.json.Decoder(list[Raw])
_DISCRIMINATORS = ("input", "messages", "data")
_SGLANG_DECODERS: Mapping[str, RequestDecoder] = {"text": msgspec.json.Decoder(SGLangText), "input_ids": msgspec.json.Decoder(SGLangIds)}


def _estimate_tokens(request: Any) -> int:
    return sum(text_tokens(len(msgspec.json.encode(field))) for field in msgspec.structs.astuple(request)[:1])


def _check_results(raw: bytes, meta: ResponseMeta, id_prefix: str) -> Body:
    """Raises Garbled if there is not one for each input."""
    body = read_object(raw)
    items = decode_field(body, "data", _data_decoder, "results")
    expected = count_inputs(Body(meta.request_body))
    if expected is not None and len(items) != expected:
        raise InvalidUpstreamResponse(f"The engine gave {len(items)} results for {expected} inputs.")
    body["id"], body["object"], body["model"] = f"{id_prefix}-{meta.id}", "list", meta.model
    return body


def count_inputs(body: Body) -> int | None:
    """How many were asked about; None: it cannot be told."""
    value = body.value("input")
    if value is None:
        return 1 if body.has_value("messages") else None
    return 1 if isinstance(value, str) or isinstance(value[0], int) else len(value)


class Pooling(Route):
    name: ClassVar[str] = "pooling"
    purpose: ClassVar[str] = "pools"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "input": msgspec.json.Decoder(Input),
        "messages": msgspec.json.Decoder(Messages),
        "data": msgspec.json.Decoder(Data),
    }
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "vllm": {
            **{mark: RouteBinding(name="/pooling") for mark in ("input", "messages")},
            "data": RouteBinding(name="/pooling", is_native=True),
        },
        "openai": {mark: RouteBinding(name="/pooling") for mark in ("input", "messages")},
        # It reads an encoding and dimensions, and heeds neither.
        "lmdeploy": {
            "input": RouteBinding(
                name="/pooling", field_names={"input": "input"}, neutral_values={"encoding_format": "float", "add_special_tokens": True}
            )
        },
    }

    def estimate(self, request: Any) -> int:
        return _estimate_tokens(request)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return self.outbound_response(_check_results(raw, meta, "pool"))


class Classify(Route):
    name: ClassVar[str] = "classify"
    purpose: ClassVar[str] = "classifies texts"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "input": msgspec.json.Decoder(Input),
        "messages": msgspec.json.Decoder(Messages),
        **_SGLANG_DECODERS,
    }
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "vllm": {mark: RouteBinding(name="/classify") for mark in ("input", "messages")},
        "openai": {mark: RouteBinding(name="/v1/classify") for mark in ("input", "messages")},
        "sglang": {
            "input": RouteBinding(
                name="/v1/classify",
                field_names={field: field for field in ("input", "rid", "priority")},
                neutral_values={"add_special_tokens": True},
            ),
            **{mark: RouteBinding(name="/classify", is_native=True, sends_model=False) for mark in _SGLANG_DECODERS},
        },
    }

    def estimate(self, request: Any) -> int:
        return _estimate_tokens(request)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return self.outbound_response(_check_results(raw, meta, "classify"))


class SGLangEncode(Route):
    """Embeddings as SGLang tells them; /v1/embeddings is what others have."""

    name: ClassVar[str] = "sglang_encode"
    purpose: ClassVar[str] = "encodes texts as SGLang's /encode does (/v1/embeddings is for all)"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = _SGLANG_DECODERS
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "sglang": {mark: RouteBinding(name="/encode", is_native=True, sends_model=False) for mark in _SGLANG_DECODERS}
    }

    def estimate(self, request: Any) -> int:
        return _estimate_tokens(request)
