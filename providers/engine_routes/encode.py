"""/v1/encode: texts to token ids in LMDeploy's shape, for engines that tokenize. Sources: as in tokenize.py."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import RouteBinding
from providers.engine_routes.tokenize import check_tokens


class Encoding(Struct):
    """LMDeploy's request."""

    input: str | list[str]
    do_preprocess: bool | None = None
    add_bos: bool | None = None


class Encode(Route):
    """/v1/encode."""

    name: ClassVar[str] = "encode"
    purpose: ClassVar[str] = "encodes texts as token ids"
    is_free_of_charge: ClassVar[bool] = True
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {"input": msgspec.json.Decoder(Encoding)}

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        body = check_tokens(read_object(raw))
        return self.outbound_response(Body({"input_ids": body["tokens"], "length": body["count"]}))


def encode_binding(prompt_binding: RouteBinding) -> RouteBinding:
    """The binding of an engine that tokenizes prompts, for callers with LMDeploy's shape."""
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
