"""Every admin route, for admin keys only."""

from typing import Any

from litestar import Request, Router
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import authentication
from app.api.admin import credentials, dropped, engines, fleet, inferences, keys, teams
from app.gateway.serve import Gateway


def admin_router(gateway: Gateway, database: AsyncEngine) -> Router:
    async def admins_only(request: Request[Any, Any, Any]) -> None:
        await authentication.authenticate_admin(gateway.snapshot_cache, request.scope)

    handlers = [
        inferences.routes(database),
        dropped.routes(database),
        keys.routes(database),
        teams.routes(database),
        credentials.routes(database, gateway.fleet.vault),
        engines.routes(gateway),
        fleet.routes(gateway, database),
    ]
    return Router("/admin/v1", route_handlers=handlers, before_request=admins_only)
