"""The paths of the inference routes, and the dialect or engine route that each is in."""

from collections.abc import Mapping

from app.domain.model_address import template
from providers.engine_routes.paths import ROUTE_BY_PATH

INFERENCE_PATHS: Mapping[str, str] = {
    "/v1/chat/completions": "openai_chat",
    "/v1/completions": "openai_completions",
    "/v1/responses": "openai_responses",
    "/v1/responses/compact": "openai_responses",
    "/v1/embeddings": "openai_embeddings",
    "/v1/messages": "anthropic_messages",
    "/v1/messages/count_tokens": "anthropic_count_tokens",
    "/v1/responses/input_tokens": "anthropic_count_tokens",
    "/inference/v1/generate": "vllm_generate",
    # TensorZero's native API, and its paths of OpenAI's.
    "/inference": "tensorzero_inference",
    "/openai/v1/chat/completions": "openai_chat",
    "/openai/v1/embeddings": "openai_embeddings",
    **ROUTE_BY_PATH,
}

# The path that stands for a route in records' exports and in the permissions of keys, where the route is one of several.
PATHS_BY_ROUTE: Mapping[str, str] = {
    **{route: path for path, route in reversed(INFERENCE_PATHS.items())},
    "gemini": template("generateContent"),
}
