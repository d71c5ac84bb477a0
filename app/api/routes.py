"""Every route of the service, in one list."""

from collections.abc import Mapping
from typing import Any

from litestar import Litestar, Request, Router
from litestar.types import ControllerRouterHandler, Receive, Scope, Send
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import auth, models, operations
from app.api.admin import inferences
from app.api.door import Door
from app.gateway.serve import Gateway
from providers.dialects.catalogue import DIALECTS


class Front:
    """The service as ASGI: inference routes go straight to their Doors, everything else to Litestar.

    Litestar's own layers would cost each inference a tenth of its processor time (../shared/PERFORMANCE.md), and give it nothing:
    the Door finds the caller, tells the errors and ends the request by itself.
    """

    def __init__(self, doors: Mapping[str, Door], rest: Litestar) -> None:
        self._doors = doors
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door = self._doors.get(scope["path"]) if scope["type"] == "http" else None
        if door is None:
            await self._rest(scope, receive, send)  # pyright: ignore[reportArgumentType]
        else:
            await door(scope, receive, send)


def doors(gateway: Gateway) -> Mapping[str, Door]:
    return {"/v1/chat/completions": Door(gateway, DIALECTS["openai_chat"])}


def routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    return [models.routes(gateway.live), operations.routes(gateway), administration(gateway, database)]


def administration(gateway: Gateway, database: AsyncEngine) -> Router:
    async def admins_only(request: Request[Any, Any, Any]) -> None:
        await auth.admin(gateway.live, dict(request.scope["headers"]))

    return Router("/admin/v1", route_handlers=[inferences.routes(database)], before_request=admins_only)
