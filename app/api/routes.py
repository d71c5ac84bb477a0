"""Every route of the service, in one list."""

from typing import Any

from litestar import Request, Router, asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import ControllerRouterHandler, Receive, Scope, Send
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import auth, models, operations
from app.api.admin import inferences
from app.api.door import Door
from app.gateway.serve import Gateway
from providers.dialects.catalogue import DIALECTS


def routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    return [
        inference("/v1/chat/completions", Door(gateway, DIALECTS["openai_chat"])),
        models.routes(gateway.live),
        operations.routes(gateway),
        administration(gateway, database),
    ]


def inference(path: str, door: Door) -> ASGIRouteHandler:
    # A bare ASGI handler: Litestar's typed ones cost three times as much processor time (../shared/PERFORMANCE.md).
    @asgi(path)
    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        await door(scope, receive, send)

    return handle


def administration(gateway: Gateway, database: AsyncEngine) -> Router:
    async def admins_only(request: Request[Any, Any, Any]) -> None:
        await auth.admin(gateway.live, dict(request.scope["headers"]))

    return Router("/admin/v1", route_handlers=[inferences.routes(database)], before_request=admins_only)
