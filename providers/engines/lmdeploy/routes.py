"""Engine routes of LMDeploy. Sources: docs/sources.md#lmdeploy; LMDeploy 0.18 serve/openai (pooling); read 2026-11."""

from providers.canonical.raw_json import Body
from providers.engine_routes.read_response import read_object
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding


def _convert_ids(raw: bytes, request_body: Body) -> bytes:
    """Reads LMDeploy's `input_ids` and `length`."""
    response = read_object(raw)
    body = Body({key: value for key, value in response.items() if key not in ("input_ids", "length")})
    body["tokens"], body["count"] = response.get("input_ids"), response.get("length")
    return body.write()


# Its documented fields; it ignores all others.
_GENERATE_BINDING = RouteBinding(
    name="/generate",
    field_names={
        field: field
        for field in (
            *("prompt", "input_ids", "image_data", "mm_processor_kwargs", "session_id", "stream", "max_tokens", "stop", "stop_token_ids"),
            *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "ignore_eos", "skip_special_tokens", "return_logprob"),
            *("spaces_between_special_tokens", "include_stop_str_in_output", "return_routed_experts"),
        )
    },
    sends_model=False,
)

LMDEPLOY_ROUTES: EngineRoutes = {
    "tokenize": {
        "prompt": RouteBinding(
            name="/v1/encode",
            field_names={"prompt": "input", "add_special_tokens": "add_bos"},
            neutral_values={"return_token_strs": False},
            default_values={"do_preprocess": False},
            sends_model=False,
            convert_response=_convert_ids,
        )
    },
    "encode": {"input": RouteBinding(name="/v1/encode", sends_model=False, convert_response=_convert_ids)},
    "pooling": {
        # It accepts an encoding format and dimensions, and ignores both.
        "input": RouteBinding(
            name="/pooling", field_names={"input": "input"}, neutral_values={"encoding_format": "float", "add_special_tokens": True}
        )
    },
    "generate": {field: _GENERATE_BINDING for field in ("prompt", "input_ids")},
}
