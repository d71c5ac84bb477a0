"""Every admin route: the declared operations, and the routers that are not declared yet."""

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
    return [*teams.operations(), *audit.operations()]


def admin_router(gateway: Gateway, database: AsyncEngine) -> Router:
    """`database`: a pool of the admin API's own."""

    async def authenticate(request: Request[Any, Any, Any]) -> Principal:
        caller = await authentication.authenticate_admin(gateway.snapshot_cache, request.scope)
        return Principal("key", caller.prefix, caller.prefix, (Grant("owner"),))

    async def admins_only(request: Request[Any, Any, Any]) -> None:
        await authenticate(request)

    dispatcher = Dispatcher(database, gateway.fleet.vault, authenticate, gateway.settings.trusted_proxies.parsed)
    handlers = [
        inferences.routes(database),
        dropped.routes(database),
        keys.routes(database),
        credentials.routes(database, gateway.fleet.vault),
        engines.routes(gateway),
        fleet.routes(gateway, database),
    ]
    return Router(
        "/admin/v1",
        route_handlers=[
            *(dispatcher.route(operation) for operation in operations(gateway)),
            Router("/", route_handlers=handlers, before_request=admins_only),
        ],
    )
