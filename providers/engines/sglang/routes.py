"""Engine routes of SGLang.

Sources: its openai/serving_tokenize.py, openai/serving_rerank.py, openai/protocol.py (ScoringRequest, ClassifyRequest) and
http_server.py (/encode, /classify); read 2026-11.
"""

import msgspec

from providers.canonical.raw_json import Body
from providers.engine_routes.detokenize import UNKNOWN_TOKEN_MARKERS, text_converter
from providers.engine_routes.generate import check_sampling_params
from providers.engine_routes.read_response import read_list, reported_input_tokens
from providers.engine_routes.rerank import GATEWAY_FIELDS, TEXTS_ONLY
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.sglang_encode import SGLANG_DECODERS
from providers.fields import OUTPUT_BOUND_FIELDS

_CHAT_FIELDS = (
    *("messages", "tools", "tool_choice", "reasoning_effort", "continue_final_message", "chat_template_kwargs"),
    *("separate_reasoning", "stream_reasoning"),
)


def _convert_ranking(raw: bytes, request_body: Body) -> bytes:
    """Reads SGLang's bare list of {"score", "document", "index", "meta_info"}."""
    items = read_list(raw)
    results = [{"index": item.get("index"), "relevance_score": item.get("score")} for item in items]
    tokens = reported_input_tokens(items)
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return msgspec.json.encode({"results": results, **usage})


# Its bound on output tokens is in `sampling_params`; it would ignore another.
_GENERATE_BINDING = RouteBinding(
    name="/generate",
    unsupported_fields=OUTPUT_BOUND_FIELDS,
    value_checks={"sampling_params": check_sampling_params},
    sends_model=False,
    reads_salt=True,
)

SGLANG_ROUTES: EngineRoutes = {
    "tokenize": {
        "prompt": RouteBinding(
            name="/tokenize",
            field_names={"prompt": "prompt", "add_special_tokens": "add_special_tokens"},
            neutral_values={"return_token_strs": False},
        ),
        # With messages it ignores add_special_tokens, and its template always opens the assistant's turn.
        "messages": RouteBinding(
            name="/tokenize",
            field_names={field: field for field in _CHAT_FIELDS},
            neutral_values={"return_token_strs": False, "add_special_tokens": False, "add_generation_prompt": True},
        ),
    },
    "detokenize": {
        "tokens": RouteBinding(
            name="/detokenize",
            field_names={"tokens": "tokens", "skip_special_tokens": "skip_special_tokens"},
            # Its default is true; to all other engines special tokens are part of the text.
            default_values={"skip_special_tokens": False},
            convert_response=text_converter("text"),
            caller_error_markers=UNKNOWN_TOKEN_MARKERS,
        )
    },
    "rerank": {
        "documents": RouteBinding(
            name="/v1/rerank",
            field_names={"query": "query", "documents": "documents", "instruction": "instruct"},
            value_checks=TEXTS_ONLY,
            gateway_fields=GATEWAY_FIELDS,
            sends_model=False,
            convert_response=_convert_ranking,
        )
    },
    "score": {"label_token_ids": RouteBinding(name="/v1/score", is_native=True)},
    "classify": {
        "input": RouteBinding(
            name="/v1/classify",
            field_names={field: field for field in ("input", "rid", "priority")},
            neutral_values={"add_special_tokens": True},
        ),
        **{field: RouteBinding(name="/classify", is_native=True, sends_model=False) for field in SGLANG_DECODERS},
    },
    "generate": {field: _GENERATE_BINDING for field in ("text", "input_ids")},
    "sglang_encode": {field: RouteBinding(name="/encode", is_native=True, sends_model=False) for field in SGLANG_DECODERS},
}
