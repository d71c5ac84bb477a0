"""The admin API, the routes of a key's own, signing in, the dashboard and the documentation, put together."""

from collections.abc import Mapping

from litestar.types import ControllerRouterHandler
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import metrics
from app.api.admin.routes import admin_router, operations
from app.api.dashboard import routes as dashboard
from app.api.dashboard.static_files import StaticFiles
from app.api.openapi import routes as openapi
from app.api.own import routes as own
from app.api.own.key_access import KeyAccess
from app.api.own.playground import playground_routes
from app.api.rest.admin_authentication import AdminAuthentication
from app.api.server.access_log import AccessLog
from app.api.server.http_call import CallHandler
from app.api.sign_in import key_routes as key_sign_in
from app.api.sign_in import routes as sign_in
from app.gateway.pipeline.gateway import Gateway
from app.store.access.token_lookups import TokenLookups


def admin_address_routes(
    gateway: Gateway, database: AsyncEngine, callers_database: AsyncEngine, tokens: TokenLookups, access_log: AccessLog | None
) -> tuple[list[ControllerRouterHandler], Mapping[str, CallHandler]]:
    """Returns the admin API with the pages beside it, and its playground, which bypasses Litestar.

    `database`: a pool of their own. `callers_database`: for what callers read.
    """
    settings = gateway.settings
    authentication = AdminAuthentication(gateway.snapshot_cache, tokens, settings.public_url, settings.cors_origins.parsed)
    keys, static_files = KeyAccess(authentication, database), StaticFiles()
    handlers: list[ControllerRouterHandler] = [
        admin_router(gateway, database, authentication),
        *own.routes(gateway, keys, callers_database),
        sign_in.routes(gateway, database),
        key_sign_in.routes(gateway, database),
        *([dashboard.routes(static_files)] if settings.dashboard == "on" else []),
        openapi.routes(operations(gateway), settings, static_files),
        *([metrics.routes(gateway)] if settings.metrics == "admin" else []),
    ]
    return handlers, playground_routes(gateway, keys, database, access_log)
