"""GET /v1/models and /v1/models/{id}: the models and functions that a key may use.

They are in OpenAI's shape, or in Anthropic's or Google's for their clients. For the Codex CLI, which says its version, the list is a
catalogue of its own shape.
"""

import asyncio
import datetime
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from litestar import Request, Response, Router, get

from app.api.callers import google_models as google
from app.api.callers.authentication import Authenticate
from app.api.callers.caller_route import ITEMS, TEXT, CallerRoute, list_of, object_with
from app.api.callers.codex_models import PARAMETER, codex_model, serves_chats
from app.api.callers.exception_handlers import is_anthropic_client, is_google_client
from app.api.server.path_segments import decode_slashes
from app.api.server.response_headers import new_request_headers
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.model_facts import ModelFacts, function_facts, model_facts
from app.gateway.routing.permissions import may_use, usable_names
from app.store.configuration.snapshot_cache import SnapshotCache
from providers.canonical.errors import UnknownModel

PATH = "/v1/models"
_AT_ONCE = 200  # models, in one turn of the event loop


def routes(snapshot_cache: SnapshotCache, fleet: Fleet, authenticate: Authenticate, path: str = PATH) -> Router:
    async def describe(names: list[str], write: Callable[[str, ModelFacts], dict[str, Any] | None]) -> list[dict[str, Any]]:
        """Returns what `write` makes of each model, without those of which it makes None."""
        snapshot, table, now_s = snapshot_cache.snapshot, fleet.table, time.time()
        described: list[dict[str, Any]] = []
        for start in range(0, len(names), _AT_ONCE):
            if start:
                await asyncio.sleep(0)
            for name in names[start : start + _AT_ONCE]:
                facts = model_facts if name in snapshot.models else function_facts
                entry = write(name, facts(snapshot, table, name, now_s))
                if entry is not None:
                    described.append(entry)
        return described

    @get("/")
    async def list_models(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        names = usable_names(snapshot_cache.snapshot, await authenticate(request))
        if is_google_client(request):
            return _respond(google.list_page(snapshot_cache, fleet, names, request))
        if PARAMETER in request.query_params:
            priorities = {name: number for number, name in enumerate(names)}
            return _respond({"models": await describe(names, functools.partial(_codex_entry, priorities))})
        data = await describe(names, _writer_for(request))
        if is_anthropic_client(request):
            page_ids = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
            return _respond({"data": data, "has_more": False, **page_ids})
        return _respond({"object": "list", "data": data})

    @get("/{name:path}")
    async def show_model(request: Request[Any, Any, Any], name: str) -> Response[dict[str, Any]]:
        caller = await authenticate(request)
        wanted = decode_slashes(name.removeprefix("/"))
        snapshot = snapshot_cache.snapshot
        if (wanted not in snapshot.models and wanted not in snapshot.functions) or not may_use(caller, wanted):
            known = ", ".join(usable_names(snapshot, caller)) or "none yet"
            raise UnknownModel(f"There is no model {wanted!r}. This key may use: {known}.", param="model")
        if is_google_client(request):
            return _respond(google.describe(snapshot_cache, fleet, wanted))
        [described] = await describe([wanted], _writer_for(request))
        return _respond(described)

    return Router(path, route_handlers=[list_models, show_model])


_MODEL = {"anyOf": [
    object_with(id=TEXT, object={"type": "string", "const": "model"}, created={"type": "integer"}, owned_by=TEXT),
    object_with(type={"type": "string", "const": "model"}, id=TEXT, display_name=TEXT, created_at=TEXT),
]}  # fmt: skip
DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/v1/models",
        id="list_models",
        tag="Callers",
        summary="List the models that a key may use",
        description="In Anthropic's shape for requests with `anthropic-version`, as a catalogue of the Codex CLI with `client_version`.",
        parameters={PARAMETER: {"type": "string", "description": "The version of the Codex CLI that asks for its catalogue."}},
        response={"anyOf": [list_of(_MODEL, object=TEXT), list_of(_MODEL, has_more={"type": "boolean"}), object_with(models=ITEMS)]},
    ),
    CallerRoute(
        method="GET",
        path="/v1/models/{name}",
        id="get_model",
        tag="Callers",
        summary="Show a model",
        response=_MODEL,
        errors=(404,),
    ),
)


def _writer_for(request: Request[Any, Any, Any]) -> Callable[[str, ModelFacts], dict[str, Any]]:
    return anthropic_model if is_anthropic_client(request) else openai_model


def _codex_entry(priorities: Mapping[str, int], name: str, facts: ModelFacts) -> dict[str, Any] | None:
    return codex_model(name, facts, priorities[name]) if serves_chats(facts) else None


def openai_model(name: str, facts: ModelFacts) -> dict[str, Any]:
    """OpenAI's fields, which its SDKs require, then what is known beyond them."""
    known = {field: value for field, value in msgspec.to_builtins(facts).items() if value is not None}
    return {"id": name, "object": "model", "owned_by": "narthex", **known}


def anthropic_model(name: str, facts: ModelFacts) -> dict[str, Any]:
    """See https://docs.anthropic.com/en/api/models-list, read 2026-11."""
    created_at = datetime.datetime.fromtimestamp(facts.created, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": created_at, "lifecycle": "active"}


def _respond(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers=new_request_headers())
