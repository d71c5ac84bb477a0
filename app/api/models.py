"""GET /v1/models and /v1/models/{id}: the names that a key may use, in OpenAI's shape."""

from typing import Any

from litestar import Request, Response, Router, get

from app import uuid7
from app.api.auth import who_asks
from app.api.replies import request_headers
from app.store.live import Live
from providers.errors import UnknownModel


def routes(live: Live) -> Router:
    @get("/")
    async def list_models(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        await who_asks(live, dict(request.scope["headers"]))
        return _answer({"object": "list", "data": [_card(name) for name in sorted(live.directory.models)]})

    @get("/{name:path}")
    async def show_model(request: Request[Any, Any, Any], name: str) -> Response[dict[str, Any]]:
        await who_asks(live, dict(request.scope["headers"]))
        wanted = name.removeprefix("/")
        if wanted not in live.directory.models:
            known = ", ".join(sorted(live.directory.models)) or "none yet"
            raise UnknownModel(f"There is no model {wanted!r}. This key may use: {known}.", param="model")
        return _answer(_card(wanted))

    return Router("/v1/models", route_handlers=[list_models, show_model])


def _card(name: str) -> dict[str, Any]:
    # `created` is required by OpenAI's SDKs; a name in a configuration has no birthday.
    return {"id": name, "object": "model", "created": 0, "owned_by": "narthex"}


def _answer(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers={name.decode(): value.decode() for name, value in request_headers(uuid7.mint())})
