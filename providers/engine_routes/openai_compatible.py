"""Routes of an engine that is not identified: as vLLM has them, and a response of another shape means that the route is missing."""

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import Body
from providers.engine_routes.detokenize import UNKNOWN_TOKEN_MARKERS
from providers.engine_routes.read_response import read_object
from providers.engine_routes.rerank import GATEWAY_FIELDS
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.score import PAIR_FIELDS


def _require_count(raw: bytes, request_body: Body) -> bytes:
    """Rejects a 200 without tokens, as llama.cpp answers to `prompt` and `messages`, which it ignores."""
    response = read_object(raw)
    if not response.has_value("count"):
        raise InvalidUpstreamResponse("it reported no `count` of tokens.")
    if not response.value("tokens") and any(request_body.value(field) for field in ("prompt", "messages", "input")):
        raise InvalidUpstreamResponse("it returned no tokens.")
    return raw


_TOKENIZE_BINDING = RouteBinding(name="/tokenize", convert_response=_require_count)

OPENAI_COMPATIBLE_ROUTES: EngineRoutes = {
    "tokenize": {"prompt": _TOKENIZE_BINDING, "messages": _TOKENIZE_BINDING},
    "detokenize": {"tokens": RouteBinding(name="/detokenize", caller_error_markers=UNKNOWN_TOKEN_MARKERS)},
    "rerank": {"documents": RouteBinding(name="/v1/rerank", gateway_fields=GATEWAY_FIELDS)},
    "score": {field: RouteBinding(name="/v1/score") for field in PAIR_FIELDS},
    "pooling": {field: RouteBinding(name="/pooling") for field in ("input", "messages")},
    "classify": {field: RouteBinding(name="/v1/classify") for field in ("input", "messages")},
}
