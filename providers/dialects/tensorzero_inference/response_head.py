"""The beginning of every response and every chunk, and whether the response is JSON instead of content blocks."""

from collections.abc import Mapping
from typing import Any

from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta

_PREFIXES = ("tensorzero::model_name::", "tensorzero::function_name::")


def response_head(meta: ResponseMeta) -> dict[str, Any]:
    """The fields with which a response begins. TensorZero gives a model that is called directly as its own `variant_name`."""
    variant = Body(meta.request_body).value("variant_name")
    if variant is not None:
        return {"inference_id": meta.id, "episode_id": meta.episode_id, "variant_name": variant}
    name = meta.model
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return {"inference_id": meta.id, "episode_id": meta.episode_id, "variant_name": name}


def is_json_response(request_body: Mapping[str, Any]) -> bool:
    return "output_schema" in request_body
