"""Engine routes of the sandbox engine."""

from collections.abc import Mapping

from providers.engine_routes.detokenize import UNKNOWN_TOKEN_MARKERS, check_one_list
from providers.engine_routes.rerank import GATEWAY_FIELDS, TEXTS_ONLY, check_texts_only
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.tokenize import check_one_text

_SANDBOX_FIELD_NAMES = {field: field for field in ("return_token_strs", "sandbox")}


def _score_binding(field_names: Mapping[str, str]) -> RouteBinding:
    return RouteBinding(
        name="/score",
        field_names={**field_names, "sandbox": "sandbox"},
        value_checks=dict.fromkeys(field_names, check_texts_only),
    )


SANDBOX_ROUTES: EngineRoutes = {
    "tokenize": {
        "prompt": RouteBinding(
            name="/tokenize",
            field_names={"prompt": "prompt", "add_special_tokens": "add_special_tokens", **_SANDBOX_FIELD_NAMES},
            value_checks={"prompt": check_one_text},
        ),
        "messages": RouteBinding(
            name="/tokenize",
            field_names={
                **{field: field for field in ("messages", "add_special_tokens", "add_generation_prompt", "continue_final_message")},
                **_SANDBOX_FIELD_NAMES,
            },
        ),
    },
    "detokenize": {
        "tokens": RouteBinding(
            name="/detokenize",
            unsupported_fields=frozenset({"skip_special_tokens"}),
            neutral_values={"skip_special_tokens": False},
            value_checks={"tokens": check_one_list},
            caller_error_markers=UNKNOWN_TOKEN_MARKERS,
        )
    },
    "rerank": {
        "documents": RouteBinding(
            name="/rerank",
            field_names={"query": "query", "documents": "documents", "sandbox": "sandbox"},
            value_checks=TEXTS_ONLY,
            gateway_fields=GATEWAY_FIELDS,
        )
    },
    "score": {
        "text_1": _score_binding({"text_1": "text_1", "text_2": "text_2"}),
        "data_1": _score_binding({"data_1": "text_1", "data_2": "text_2"}),
        "queries": _score_binding({"queries": "text_1", "documents": "text_2"}),
    },
}
