"""GET /v1/inferences/{id}: a recorded request of the caller's team, with its response."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, Response, Router, get
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.callers.authentication import authenticate_scope
from app.api.callers.caller_route import COUNT_OR_NULL, TEXT, TEXT_OR_NULL, CallerRoute, object_with
from app.api.server.response_headers import new_request_headers
from app.domain import uuid7
from app.gateway.responses_state.lookup_slots import LookupSlots
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.postgres.admin_transactions import admin_transaction
from app.store.records.team_records import find_team_record
from providers.canonical.errors import InvalidRequest, UnknownRecord

_QUERY_TIMEOUT_S = 5.0
_MAX_CONTENT_BYTES = 8 * 1024 * 1024  # of a request, and of a response
# With the look-ups of stored responses, fewer than the connections that a gateway process has for everything.
_LOOKUPS_PER_TEAM, _LOOKUPS_PER_WORKER = 1, 2
_UNKNOWN_PAUSE_S = 0.02  # a team that asks for records that do not exist has fifty look-ups a second


def routes(snapshot_cache: SnapshotCache, database: AsyncEngine) -> Router:
    slots = LookupSlots(_LOOKUPS_PER_TEAM, _LOOKUPS_PER_WORKER, _UNKNOWN_PAUSE_S)

    @get("/v1/inferences/{id:str}")
    async def show_inference(request: Request[Any, Any, Any], id: str) -> Response[bytes]:
        caller = await authenticate_scope(snapshot_cache, request.scope)
        if request.scope["query_string"]:
            raise InvalidRequest("This route takes no query parameters.")
        if not uuid7.is_uuid7(id):
            raise InvalidRequest("The id must be a UUIDv7, as the header x-narthex-inference-id of a response has it.", param="id")
        async with slots.slot(caller.team_id) as slot:
            async with admin_transaction(database, _QUERY_TIMEOUT_S, read_only=True) as connection:
                record = await find_team_record(connection, id.lower(), caller.team_id, _MAX_CONTENT_BYTES)
            slot.found_nothing = record is None
        if record is None:
            raise UnknownRecord(
                f"Your team has no inference {id}. A record appears within seconds of the end of its response: if it is so new, try again."
            )
        body = await asyncio.to_thread(msgspec.json.encode, record)
        return Response(body, media_type="application/json", headers={**new_request_headers(), "cache-control": "no-store"})

    return Router("/", route_handlers=[show_inference])


DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/v1/inferences/{id}",
        id="get_own_inference",
        tag="Callers",
        summary="Show a recorded request of the key's team, with its response",
        description="`id` is the `x-narthex-inference-id` of the response. A record appears within seconds of the response's end.",
        response=object_with(
            id=TEXT,
            cost_microusd=COUNT_OR_NULL,
            cost_estimated={"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            price=TEXT_OR_NULL,
            host_cost_microusd=COUNT_OR_NULL,
        ),
        errors=(404, 429),
    ),
)
