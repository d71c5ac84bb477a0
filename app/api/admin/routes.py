"""Every admin route, made of the declared operations."""

from typing import Any

from litestar import Request, Router
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import authentication
from app.api.admin import audit, credentials, dropped, engines, fleet, inferences, keys, teams
from app.api.rest.dispatch import Dispatcher
from app.api.rest.operation import Operation
from app.gateway.serve import Gateway
from app.store.access.roles import Grant, Principal


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    """Every declared operation, in the order in which the documentation shows them."""
    return [
        *keys.operations(gateway.settings.limits_output_tokens),
        *teams.operations(),
        *credentials.operations(gateway.fleet.vault),
        *inferences.operations(),
        *dropped.operations(),
        *engines.operations(gateway),
        *fleet.operations(gateway),
        *audit.operations(),
    ]


def admin_router(gateway: Gateway, database: AsyncEngine) -> Router:
    """`database`: a pool of the admin API's own."""

    async def authenticate(request: Request[Any, Any, Any]) -> Principal:
        caller = await authentication.authenticate_admin(gateway.snapshot_cache, request.scope)
        return Principal("key", caller.prefix, caller.prefix, (Grant("owner"),))

    dispatcher = Dispatcher(database, gateway.fleet.vault, authenticate, gateway.settings.trusted_proxies.parsed)
    return Router("/admin/v1", route_handlers=[dispatcher.route(operation) for operation in operations(gateway)])
