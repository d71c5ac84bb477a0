"""GET /v1beta/models and /v1beta/models/{name}: the models and functions that a key may use, in Google's shape."""

from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, Router, get

from app.api.callers.authentication import Authenticate
from app.api.callers.caller_route import TEXT, CallerRoute, object_with
from app.api.callers.google_models import MAX_PAGE, MODEL_SCHEMA, describe, list_page
from app.api.server.path_segments import decode_slashes
from app.api.server.response_headers import new_request_headers
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.permissions import may_use, usable_names
from app.store.configuration.snapshot_cache import SnapshotCache
from providers.canonical.errors import UnknownModel

# /v1/models, which other APIs have too, answers in this shape to Google's clients: app/api/callers/models.py.
_VERSIONS = ("v1beta", "v1alpha")
_Request = Request[Any, Any, Any]


def routes(snapshot_cache: SnapshotCache, fleet: Fleet, authenticate: Authenticate) -> list[Router]:
    """The routes of the versions that no other API has."""

    @get("/")
    async def list_models(request: _Request) -> Response[dict[str, Any]]:
        names = usable_names(snapshot_cache.snapshot, await authenticate(request))
        return _respond(list_page(snapshot_cache, fleet, names, request))

    @get("/{name:path}")
    async def show_model(request: _Request, name: str) -> Response[dict[str, Any]]:
        caller = await authenticate(request)
        wanted = decode_slashes(name.removeprefix("/"))
        snapshot = snapshot_cache.snapshot
        if (wanted not in snapshot.models and wanted not in snapshot.functions) or not may_use(caller, wanted):
            known = ", ".join(usable_names(snapshot, caller)) or "none yet"
            raise UnknownModel(f"There is no model {wanted!r}. This key may use: {known}.", param="model")
        return _respond(describe(snapshot_cache, fleet, wanted))

    return [Router(f"/{version}/models", route_handlers=[list_models, show_model]) for version in _VERSIONS]


def _respond(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers=new_request_headers())


DESCRIPTIONS: Sequence[CallerRoute] = tuple(
    route
    for version in _VERSIONS
    for route in (
        CallerRoute(
            method="GET",
            path=f"/{version}/models",
            id=f"list_google_models_{version}",
            tag="Google",
            summary="List the models that a key may use, in Google's shape",
            parameters={"pageSize": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}, "pageToken": TEXT},
            response=object_with(models={"type": "array", "items": MODEL_SCHEMA}),
            error_schema="GoogleError",
        ),
        CallerRoute(
            method="GET",
            path=f"/{version}/models/{{name}}",
            id=f"get_google_model_{version}",
            tag="Google",
            summary="Show a model, in Google's shape",
            response=MODEL_SCHEMA,
            errors=(404,),
            error_schema="GoogleError",
        ),
    )
)
