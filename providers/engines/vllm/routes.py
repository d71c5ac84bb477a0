"""Engine routes of vLLM, whose shapes are the common ones. Sources: vLLM 0.33 entrypoints; read 2026-11."""

from providers.engine_routes.detokenize import UNKNOWN_TOKEN_MARKERS, check_one_list
from providers.engine_routes.rerank import GATEWAY_FIELDS
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.score import PAIR_FIELDS
from providers.engine_routes.tokenize import check_one_text

_DETOKENIZE_BINDING = RouteBinding(
    name="/detokenize",
    # Its text has the special tokens, and it ignores the field.
    unsupported_fields=frozenset({"skip_special_tokens"}),
    neutral_values={"skip_special_tokens": False},
    value_checks={"tokens": check_one_list},
    caller_error_markers=UNKNOWN_TOKEN_MARKERS,
)

VLLM_ROUTES: EngineRoutes = {
    "tokenize": {
        "prompt": RouteBinding(name="/tokenize", value_checks={"prompt": check_one_text}),
        "messages": RouteBinding(name="/tokenize"),
    },
    "detokenize": {"tokens": _DETOKENIZE_BINDING},
    "rerank": {
        # Cohere's first names for fields, all of which vLLM accepts and ignores.
        "documents": RouteBinding(
            name="/rerank", unsupported_fields=frozenset({"rank_fields", "max_chunks_per_doc"}), gateway_fields=GATEWAY_FIELDS
        )
    },
    "score": {field: RouteBinding(name="/score") for field in PAIR_FIELDS},
    "pooling": {
        **{field: RouteBinding(name="/pooling") for field in ("input", "messages")},
        "data": RouteBinding(name="/pooling", is_native=True),
    },
    "classify": {field: RouteBinding(name="/classify") for field in ("input", "messages")},
}
