"""Every route, and on which of the addresses it is: the callers', the admin API's (app/api/admin/routes.py has that API), or both."""

from collections.abc import Mapping

from litestar.types import ControllerRouterHandler
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import health, metrics
from app.api.admin.routes import admin_router, operations
from app.api.callers import feedback, inferences, limits, models, nodes, responses, usage
from app.api.callers.authentication import authentication_by_key
from app.api.callers.inference_route import InferenceRoute
from app.api.dashboard import routes as dashboard
from app.api.openapi import routes as openapi
from app.api.own import routes as own
from app.api.own.key_access import KeyAccess
from app.api.own.playground import playground_routes
from app.api.rest.admin_authentication import AdminAuthentication
from app.api.server.access_log import AccessLog
from app.api.server.cors import Cors, CorsRoute
from app.api.server.http_call import CallHandler
from app.api.sign_in import key_routes as key_sign_in
from app.api.sign_in import routes as sign_in
from app.domain.inference_paths import INFERENCE_PATHS
from app.gateway.pipeline.gateway import Gateway
from app.store.access.token_lookups import TokenLookups
from providers.catalogue import DIALECTS


def inference_routes(gateway: Gateway, access_log: AccessLog | None) -> Mapping[str, CallHandler]:
    """The inference routes, which bypass Litestar: its layers would cost each inference a tenth of its processor time for nothing."""
    found = {path: InferenceRoute(gateway, DIALECTS[dialect], access_log) for path, dialect in INFERENCE_PATHS.items()}
    if not gateway.settings.cors_origins:
        return found
    cors = Cors(gateway.settings.cors_origins)
    return {path: CorsRoute(route, cors) for path, route in found.items()}


def shared_routes(gateway: Gateway) -> list[ControllerRouterHandler]:
    """Returns the routes on both addresses: health, and the metrics unless only the admin API has them."""
    return [health.routes(gateway), *([] if gateway.settings.metrics == "admin" else [metrics.routes(gateway)])]


def caller_routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    """Returns the routes on the callers' address."""
    by_key = authentication_by_key(gateway.snapshot_cache)
    return [
        models.routes(gateway.snapshot_cache, gateway.fleet, by_key),
        responses.routes(gateway.snapshot_cache, gateway.conversations),
        limits.routes(gateway, by_key),
        usage.routes(database, by_key),
        inferences.routes(gateway.snapshot_cache, database),
        feedback.routes(gateway),
        nodes.routes(gateway, database),
    ]


def admin_routes(
    gateway: Gateway, database: AsyncEngine, tokens: TokenLookups, access_log: AccessLog | None
) -> tuple[list[ControllerRouterHandler], Mapping[str, CallHandler]]:
    """Returns the admin API with the pages beside it, and its playground, which bypasses Litestar. `database`: a pool of their own.

    Their address is the callers' address, unless the setting `admin_port` gives them one of their own.
    """
    settings = gateway.settings
    authentication = AdminAuthentication(gateway.snapshot_cache, tokens, settings.public_url, settings.cors_origins.parsed)
    keys = KeyAccess(authentication, database)
    handlers: list[ControllerRouterHandler] = [
        admin_router(gateway, database, authentication),
        *own.routes(gateway, keys, database),
        sign_in.routes(gateway, database),
        key_sign_in.routes(gateway, database),
        dashboard.routes(),
        openapi.routes(operations(gateway), settings),
        *([metrics.routes(gateway)] if settings.metrics == "admin" else []),
    ]
    return handlers, playground_routes(gateway, keys, database, access_log)
