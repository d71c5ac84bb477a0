"""The routes on the callers' address, and those on both. app/api/admin_address/routes.py has those on the admin API's."""

import functools
from collections.abc import Mapping

from litestar.types import ControllerRouterHandler
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api import health, metrics, root
from app.api.callers import feedback, inferences, limits, models, nodes, responses, usage
from app.api.callers.authentication import authentication_by_key
from app.api.callers.compact_form import CompactForm
from app.api.callers.inference_route import InferenceRoute, RouteForm
from app.api.callers.input_tokens_form import InputTokensForm
from app.api.clouds.routes import cloud_routes
from app.api.google import models as google_models
from app.api.google.routes import google_routes
from app.api.server.access_log import AccessLog
from app.api.server.cors import Cors, CorsRoute
from app.api.server.http_call import CallHandler
from app.domain.inference_paths import INFERENCE_PATHS
from app.gateway.pipeline.gateway import Gateway
from providers.catalogue import DIALECTS


def inference_routes(gateway: Gateway, access_log: AccessLog | None) -> Mapping[str, CallHandler]:
    """The inference routes, which bypass Litestar: its layers would cost each inference a tenth of its processor time for nothing."""
    forms: Mapping[str, RouteForm] = {"/v1/responses/compact": CompactForm(gateway), "/v1/responses/input_tokens": InputTokensForm(gateway)}
    found = {
        path: InferenceRoute(gateway, DIALECTS[dialect], access_log, form=forms.get(path)) for path, dialect in INFERENCE_PATHS.items()
    }
    if not gateway.settings.cors_origins:
        return {**found, **google_routes(gateway, access_log, None), **cloud_routes(gateway, access_log, None)}
    cors = Cors(gateway.settings.cors_origins)
    with_cors = {path: CorsRoute(route, cors) for path, route in found.items()}
    wrap = functools.partial(CorsRoute, cors=cors)
    return {**with_cors, **google_routes(gateway, access_log, wrap), **cloud_routes(gateway, access_log, wrap)}


def shared_routes(gateway: Gateway, *, for_callers: bool, for_admins: bool) -> list[ControllerRouterHandler]:
    """Returns the routes on both addresses: the start, health, and the metrics unless only the admin API has them.

    `for_callers`, `for_admins`: whose other routes are there.
    """
    start = root.routes(gateway.settings, for_callers=for_callers, for_admins=for_admins)
    return [start, health.routes(gateway), *([] if gateway.settings.metrics == "admin" else [metrics.routes(gateway)])]


def caller_routes(gateway: Gateway, database: AsyncEngine) -> list[ControllerRouterHandler]:
    """Returns the routes on the callers' address."""
    by_key = authentication_by_key(gateway.snapshot_cache)
    return [
        models.routes(gateway.snapshot_cache, gateway.fleet, by_key),
        *google_models.routes(gateway.snapshot_cache, gateway.fleet, by_key),
        responses.routes(gateway.snapshot_cache, gateway.conversations),
        limits.routes(gateway, by_key),
        usage.routes(database, by_key),
        inferences.routes(gateway.snapshot_cache, database),
        feedback.routes(gateway),
        nodes.routes(gateway, database),
    ]
