"""Every route but those of admins, which are in app/api/admin/routes.py."""

from collections.abc import Mapping

from litestar.types import ControllerRouterHandler
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import health, limits, metrics, models, nodes, reference, responses, usage
from app.api.inference_route import InferenceRoute
from app.gateway.serve import Gateway
from providers.catalogue import DIALECTS
from providers.engine_routes.catalogue import ROUTE_BY_PATH

INFERENCE_PATHS = {
    "/v1/chat/completions": "openai_chat",
    "/v1/completions": "openai_completions",
    "/v1/responses": "openai_responses",
    "/v1/embeddings": "openai_embeddings",
    "/v1/messages": "anthropic_messages",
    "/v1/messages/count_tokens": "anthropic_count_tokens",
    "/inference/v1/generate": "vllm_generate",
    **ROUTE_BY_PATH,
}


def inference_routes(gateway: Gateway) -> Mapping[str, InferenceRoute]:
    """The inference routes, which bypass Litestar: its layers would cost each inference a tenth of its processor time for nothing."""
    return {path: InferenceRoute(gateway, DIALECTS[dialect]) for path, dialect in INFERENCE_PATHS.items()}


def routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    return [
        models.routes(gateway.snapshot_cache),
        responses.routes(gateway.snapshot_cache, gateway.conversations),
        limits.routes(gateway),
        usage.routes(gateway.snapshot_cache, database),
        health.routes(gateway),
        metrics.routes(gateway),
        nodes.routes(gateway, database),
        reference.routes(),
    ]
