"""Every route of the service, in one list."""

from collections.abc import Mapping
from typing import Any

from litestar import Request, Router
from litestar.types import ControllerRouterHandler
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import auth, limits, models, operations, responses, usage
from app.api.admin import credentials, engines, inferences, keys, teams
from app.api.door import Door
from app.gateway.serve import Gateway
from providers.dialects.catalogue import DIALECTS
from providers.routes.catalogue import PATHS

ASKED_AT = {
    "/v1/chat/completions": "openai_chat",
    "/v1/completions": "openai_completions",
    "/v1/responses": "openai_responses",
    "/v1/embeddings": "openai_embeddings",
    "/v1/messages": "anthropic_messages",
    "/v1/messages/count_tokens": "anthropic_count_tokens",
    "/inference/v1/generate": "vllm_generate",
    **PATHS,
}


def doors(gateway: Gateway) -> Mapping[str, Door]:
    """The inference routes. Litestar's layers would cost each inference a tenth of its processor time, and give it nothing."""
    return {path: Door(gateway, DIALECTS[dialect]) for path, dialect in ASKED_AT.items()}


def routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    return [
        models.routes(gateway.live),
        responses.routes(gateway.live, gateway.conversations),
        limits.routes(gateway),
        usage.routes(gateway.live, database),
        operations.routes(gateway),
        administration(gateway, database),
    ]


def administration(gateway: Gateway, database: AsyncEngine) -> Router:
    async def admins_only(request: Request[Any, Any, Any]) -> None:
        await auth.admin(gateway.live, request.scope)

    handlers = [
        inferences.routes(database),
        keys.routes(database),
        teams.routes(database),
        credentials.routes(database, gateway.fleet.vault),
        engines.routes(gateway),
    ]
    return Router("/admin/v1", route_handlers=handlers, before_request=admins_only)
