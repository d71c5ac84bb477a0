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
}
