"""GET /v1/models and /v1/models/{id}: the names that a key may use, in OpenAI's shape, or in Anthropic's for a client of theirs."""

from typing import Any

from litestar import Request, Response, Router, get

from app import uuid7
from app.api.auth import whose_scope
from app.api.errors import is_anthropics
from app.api.replies import request_headers
from app.domain import Caller
from app.gateway.rights import may_use
from app.store.live import Live
from providers.errors import UnknownModel


def routes(live: Live) -> Router:
    @get("/")
    async def list_models(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        names = _usable(live, await whose_scope(live, request.scope))
        if is_anthropics(request):
            ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
            return _answer({"data": [_anthropic_card(name) for name in names], "has_more": False, **ends})
        return _answer({"object": "list", "data": [_card(name) for name in names]})

    @get("/{name:path}")
    async def show_model(request: Request[Any, Any, Any], name: str) -> Response[dict[str, Any]]:
        caller = await whose_scope(live, request.scope)
        wanted = name.removeprefix("/")
        if wanted not in live.directory.models or not may_use(caller, wanted):
            known = ", ".join(_usable(live, caller)) or "none yet"
            raise UnknownModel(f"There is no model {wanted!r}. This key may use: {known}.", param="model")
        return _answer(_anthropic_card(wanted) if is_anthropics(request) else _card(wanted))

    return Router("/v1/models", route_handlers=[list_models, show_model])


def _usable(live: Live, caller: Caller) -> list[str]:
    return sorted(name for name in live.directory.models if may_use(caller, name))


def _card(name: str) -> dict[str, Any]:
    # `created` is required by OpenAI's SDKs; a name in a configuration has no birthday.
    return {"id": name, "object": "model", "created": 0, "owned_by": "narthex"}


def _anthropic_card(name: str) -> dict[str, Any]:
    """See https://docs.anthropic.com/en/api/models-list, read 2026-11."""
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def _answer(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers={name.decode(): value.decode() for name, value in request_headers(uuid7.mint())})
