"""The fleet over HTTP, for admin keys: GET /admin/v1/fleet, and POST /admin/v1/fleet/drain, which takes endpoints out of rotation."""

import logging
from typing import Any

import msgspec
from litestar import Request, Router, get, post
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.admin.engines import describe_endpoints
from app.api.rest.request_parsing import parse_admin_body, reject_unknown_parameters
from app.gateway.serve import Gateway
from app.store import nodes
from providers.canonical.errors import UnknownRecord

log = logging.getLogger(__name__)


class Drain(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /admin/v1/fleet/drain. `provider` None: the endpoint of every provider. `drained` False puts it back."""

    endpoint: str
    provider: str | None = None
    drained: bool = True


def routes(gateway: Gateway, database: AsyncEngine) -> Router:
    @get("/fleet")
    async def show_fleet(request: Request[Any, Any, Any]) -> dict[str, Any]:
        reject_unknown_parameters(request, ())
        snapshot = gateway.fleet.table.snapshot
        return {
            "data": describe_endpoints(gateway),
            "nodes": [msgspec.structs.asdict(node) for node in snapshot.nodes],
            "waiting": gateway.target_queues.waiting_counts(),
            "drained": [{"provider": provider, "endpoint": address} for provider, address in sorted(snapshot.drained)],
        }

    @post("/fleet/drain", status_code=200)
    async def drain_endpoint(request: Request[Any, Any, Any]) -> dict[str, Any]:
        """Every gateway process follows within two seconds; requests in flight go on to their end."""
        body = parse_admin_body(await request.body(), Drain)
        table = gateway.fleet.table
        known = {*table.endpoints, *table.snapshot.drained}
        found = [key for key in known if key[1] == body.endpoint and body.provider in (None, key[0])]
        if not found:
            of_provider = "" if body.provider is None else f" of {body.provider!r:.100}"
            raise UnknownRecord(f"{body.endpoint!r:.200} is not an endpoint{of_provider}. GET /admin/v1/fleet lists all.")
        for provider, address in found:
            await nodes.set_drained(database, provider, address, drained=body.drained)
        log.info("an endpoint was drained" if body.drained else "an endpoint was put back", extra={"endpoint": body.endpoint})
        return {"data": [{"provider": provider, "endpoint": address, "drained": body.drained} for provider, address in sorted(found)]}

    return Router("/", route_handlers=[show_fleet, drain_endpoint])
