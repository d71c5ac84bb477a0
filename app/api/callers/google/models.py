"""GET /v1beta/models and /v1beta/models/{name}: the models and functions that a key may use, in Google's shape; and what is not offered.

Source: https://ai.google.dev/api/models, read 2026-11.
"""

import time
from collections.abc import Sequence
from typing import Any

from litestar import HttpMethod, Request, Response, Router, get, post, route

from app.api.callers.authentication import Authenticate
from app.api.callers.caller_route import TEXT, CallerRoute, object_with
from app.api.callers.google.routes import METHODS
from app.api.server.model_address import VERSIONS
from app.api.server.path_segments import decode_slashes
from app.api.server.response_headers import new_request_headers
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.model_facts import ModelFacts, function_facts, model_facts
from app.gateway.routing.permissions import may_use, usable_names
from app.store.configuration.snapshot_cache import SnapshotCache
from providers.canonical.errors import InvalidRequest, OperationNotSupported, UnknownModel

_MAX_PAGE = 1_000
_PREFIX = "models/"
_NOT_OFFERED = {
    "files": "Files cannot be uploaded here: send them in the request, as `inlineData`, or name them by a URL in `fileData`.",
    "cachedContents": "Contents cannot be cached here by a call of their own: hosts cache the beginnings of prompts by themselves.",
    "interactions": "Interactions are not offered here: send the conversation to :generateContent.",
}
_ANY_METHOD = [HttpMethod.GET, HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE]
_Request = Request[Any, Any, Any]


def routes(snapshot_cache: SnapshotCache, fleet: Fleet, authenticate: Authenticate) -> list[Router]:
    """The routes of the versions that no other API has; /v1/models answers in this shape to Google's clients."""

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

    @post("/{name:path}")
    async def refuse_method(request: _Request, name: str) -> Response[dict[str, Any]]:
        await authenticate(request)
        raise OperationNotSupported(f"There is no such method of models here. There are: {', '.join(METHODS)}.")

    handlers = [list_models, show_model, refuse_method]
    models = [Router(f"/{version}/models", route_handlers=handlers) for version in VERSIONS if version != "v1"]
    return [*models, *_refusals(authenticate)]


def _refusals(authenticate: Authenticate) -> list[Router]:
    @route(["/", "/{id:path}"], http_method=_ANY_METHOD, status_code=200)
    async def refuse(request: _Request) -> Response[dict[str, Any]]:
        await authenticate(request)
        kind = next(part for part in request.url.path.split("/") if part in _NOT_OFFERED)
        raise OperationNotSupported(_NOT_OFFERED[kind])

    paths = [f"/{version}/{kind}" for version in VERSIONS if version != "v1" for kind in _NOT_OFFERED]
    return [Router(path, route_handlers=[refuse]) for path in (*paths, *(f"/upload/{version}/files" for version in VERSIONS))]


def list_page(snapshot_cache: SnapshotCache, fleet: Fleet, names: Sequence[str], request: _Request) -> dict[str, Any]:
    """The page that `pageSize` and `pageToken` ask for. Raises InvalidRequest."""
    size, token = request.query_params.get("pageSize", ""), request.query_params.get("pageToken", "")
    if size and not size.isdigit():
        raise InvalidRequest("`pageSize` must be a number.", param="pageSize")
    start = 0 if not token else next((at for at, name in enumerate(names) if name > token), len(names))
    shown = names[start : start + min(int(size or 0) or _MAX_PAGE, _MAX_PAGE)]
    page: dict[str, Any] = {"models": [describe(snapshot_cache, fleet, name) for name in shown]}
    if start + len(shown) < len(names):
        page["nextPageToken"] = shown[-1]
    return page


def describe(snapshot_cache: SnapshotCache, fleet: Fleet, name: str) -> dict[str, Any]:
    snapshot = snapshot_cache.snapshot
    facts = model_facts if name in snapshot.models else function_facts
    return google_model(name, facts(snapshot, fleet.table, name, time.time()))


def google_model(name: str, facts: ModelFacts) -> dict[str, Any]:
    """What is not known is left out."""
    embeds = facts.capabilities is not None and "embeddings" in facts.capabilities
    chats = facts.capabilities is None or not embeds or "chat" in facts.capabilities
    methods = [*(["generateContent", "countTokens"] if chats else []), *(["embedContent"] if embeds else [])]
    model: dict[str, Any] = {"name": _PREFIX + name, "displayName": name, "supportedGenerationMethods": methods}
    if facts.context_length is not None:
        model["inputTokenLimit"] = facts.context_length
    if facts.capabilities is not None:
        model["thinking"] = "reasoning" in facts.capabilities
    return model


def _respond(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers=new_request_headers())


_MODEL = object_with(name=TEXT, displayName=TEXT, supportedGenerationMethods={"type": "array", "items": TEXT})
DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/v1beta/models",
        id="list_google_models",
        tag="Google",
        summary="List the models that a key may use, in Google's shape",
        parameters={"pageSize": {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE}, "pageToken": TEXT},
        response=object_with(models={"type": "array", "items": _MODEL}),
        error_schema="GoogleError",
    ),
    CallerRoute(
        method="GET",
        path="/v1beta/models/{name}",
        id="get_google_model",
        tag="Google",
        summary="Show a model, in Google's shape",
        response=_MODEL,
        errors=(404,),
        error_schema="GoogleError",
    ),
)
