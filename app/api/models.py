"""GET /v1/models and /v1/models/{id}: the models that a key may use, in OpenAI's shape, or in Anthropic's for its clients."""

from typing import Any

from litestar import Request, Response, Router, get

from app.api.authentication import authenticate_scope
from app.api.exception_handlers import is_anthropic_client
from app.api.path_segments import decode_slashes
from app.api.response_headers import new_request_headers
from app.domain import Caller
from app.gateway.permissions import may_use, usable_models
from app.store.snapshot_cache import SnapshotCache
from providers.canonical.errors import UnknownModel


def routes(snapshot_cache: SnapshotCache) -> Router:
    @get("/")
    async def list_models(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        names = _usable_models(snapshot_cache, await authenticate_scope(snapshot_cache, request.scope))
        if is_anthropic_client(request):
            page_ids = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
            return _respond({"data": [anthropic_model(name) for name in names], "has_more": False, **page_ids})
        return _respond({"object": "list", "data": [openai_model(name) for name in names]})

    @get("/{name:path}")
    async def show_model(request: Request[Any, Any, Any], name: str) -> Response[dict[str, Any]]:
        caller = await authenticate_scope(snapshot_cache, request.scope)
        wanted = decode_slashes(name.removeprefix("/"))
        if wanted not in snapshot_cache.snapshot.models or not may_use(caller, wanted):
            known = ", ".join(_usable_models(snapshot_cache, caller)) or "none yet"
            raise UnknownModel(f"There is no model {wanted!r}. This key may use: {known}.", param="model")
        return _respond(anthropic_model(wanted) if is_anthropic_client(request) else openai_model(wanted))

    return Router("/v1/models", route_handlers=[list_models, show_model])


def _usable_models(snapshot_cache: SnapshotCache, caller: Caller) -> list[str]:
    return sorted(usable_models(snapshot_cache.snapshot, caller))


def openai_model(name: str) -> dict[str, Any]:
    # OpenAI's SDKs require `created`; a configured name has no creation time.
    return {"id": name, "object": "model", "created": 0, "owned_by": "narthex"}


def anthropic_model(name: str) -> dict[str, Any]:
    """See https://docs.anthropic.com/en/api/models-list, read 2026-11."""
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z", "lifecycle": "active"}


def _respond(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers=new_request_headers())
