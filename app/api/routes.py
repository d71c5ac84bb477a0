"""Every route of the service, in one list."""

from collections.abc import Mapping
from typing import Any

from litestar import Request, Router
from litestar.types import ControllerRouterHandler
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import authentication, health, limits, models, responses, usage
from app.api.admin import credentials, engines, inferences, keys, teams
from app.api.inference_route import InferenceRoute
from app.gateway.serve import Gateway
from providers.dialects.catalogue import DIALECTS
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
    """The inference routes. Litestar's layers would cost each inference a tenth of its processor time, and give it nothing."""
    return {path: InferenceRoute(gateway, DIALECTS[dialect]) for path, dialect in INFERENCE_PATHS.items()}


def routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    return [
        models.routes(gateway.snapshot_cache),
        responses.routes(gateway.snapshot_cache, gateway.conversations),
        limits.routes(gateway),
        usage.routes(gateway.snapshot_cache, database),
        health.routes(gateway),
        admin_router(gateway, database),
    ]


def admin_router(gateway: Gateway, database: AsyncEngine) -> Router:
    async def admins_only(request: Request[Any, Any, Any]) -> None:
        await authentication.authenticate_admin(gateway.snapshot_cache, request.scope)

    handlers = [
        inferences.routes(database),
        keys.routes(database),
        teams.routes(database),
        credentials.routes(database, gateway.fleet.vault),
        engines.routes(gateway),
    ]
    return Router("/admin/v1", route_handlers=handlers, before_request=admins_only)
