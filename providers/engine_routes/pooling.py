"""/pooling: what a model computes from texts without generating any, in vLLM's shape. And what /classify shares with it.

Sources: vLLM 0.33 entrypoints/pooling; LMDeploy 0.18 serve/openai (pooling); read 2026-11.
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


class Input(Struct):
    """The common request. vLLM's binary encodings are missing: a gateway cannot read them."""

    input: Annotated[str, Meta(min_length=1)] | Annotated[list[str | int | list[int]], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None


class Messages(Struct):
    """The common request, for a chat."""

    messages: Annotated[list[Raw], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None


class Data(Struct):
    """The request of a plugin of vLLM."""

    data: Raw


_data_decoder = msgspec.json.Decoder(list[Raw])


class Pooling(Route):
    """/pooling."""

    name: ClassVar[str] = "pooling"
    purpose: ClassVar[str] = "pools"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "input": msgspec.json.Decoder(Input),
        "messages": msgspec.json.Decoder(Messages),
        "data": msgspec.json.Decoder(Data),
    }

    def estimate(self, request: Any) -> int:
        return estimate_first_field(request)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return self.outbound_response(check_results(raw, meta, "pool"))


def estimate_first_field(request: Any) -> int:
    """About how many tokens the first field of a request has, which holds what the model reads."""
    return sum(text_tokens(len(msgspec.json.encode(field))) for field in msgspec.structs.astuple(request)[:1])


def check_results(raw: bytes, meta: ResponseMeta, id_prefix: str) -> Body:
    """The response with our id and model name. Raises InvalidUpstreamResponse unless there is one result for each input."""
    body = read_object(raw)
    items = decode_field(body, "data", _data_decoder, "results")
    expected = count_inputs(Body(meta.request_body))
    if expected is not None and len(items) != expected:
        raise InvalidUpstreamResponse(f"The engine returned {len(items)} results for {expected} inputs.")
    body["id"], body["object"], body["model"] = f"{id_prefix}-{meta.id}", "list", meta.model
    return body


def count_inputs(body: Body) -> int | None:
    """How many inputs a request has; None: unknown."""
    value = body.value("input")
    if value is None:
        return 1 if body.has_value("messages") else None
    return 1 if isinstance(value, str) or isinstance(value[0], int) else len(value)
