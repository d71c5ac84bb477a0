"""The fleet: GET /admin/v1/fleet, and POST /admin/v1/fleet/drain, which takes endpoints out of rotation."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.admin.fleet.endpoint_state import EndpointQuery, EndpointState, page_endpoints
from app.api.rest.command import Column, Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain.routing import Node
from app.gateway.pipeline.gateway import Gateway
from app.store.configuration import nodes
from providers.canonical.errors import UnknownRecord


class Drain(Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint to drain. `provider` null means the endpoint of every provider. `drained` false puts it back."""

    endpoint: Annotated[str, Meta(description="An address, as GET /admin/v1/fleet lists it.")]
    provider: Annotated[str | None, Meta(description="Only of this provider.")] = None
    drained: bool = True


class EndpointName(Struct, frozen=True, order=True):
    provider: str
    endpoint: str


class DrainedEndpoint(EndpointName, frozen=True):
    drained: bool


class Drained(Struct, frozen=True):
    """The endpoints that were drained or put back."""

    data: Sequence[DrainedEndpoint]


class Fleet(Struct, frozen=True):
    """A page of endpoints, with all registered nodes and drained endpoints, and how many requests wait, by target.

    `next`: give it as `after` for the next page; null: this is the last page.
    """

    data: Sequence[EndpointState]
    next: str | None
    nodes: Sequence[Node]
    waiting: Mapping[str, int]
    drained: Sequence[EndpointName]


_ENDPOINT = {"endpoint": Option(is_argument=True)}
_DRAINED = (Column("endpoint"), Column("provider"), Column("drained"))


class FleetHandlers:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def show(self, call: Call[EndpointQuery, NoBody]) -> Answer:
        snapshot = self._gateway.fleet.table.snapshot
        page = page_endpoints(self._gateway, call.query)
        drained = [EndpointName(provider, address) for provider, address in sorted(snapshot.drained)]
        return Answer(Fleet(page.data, page.next, snapshot.nodes, self._gateway.target_queues.waiting_counts(), drained))

    async def drain(self, call: Call[NoQuery, Drain]) -> Answer:
        body, table = call.body, self._gateway.fleet.table
        known = {*table.endpoints, *table.snapshot.drained}
        found = sorted(key for key in known if key[1] == body.endpoint and body.provider in (None, key[0]))
        if not found:
            of_provider = "" if body.provider is None else f" of {body.provider!r:.100}"
            raise UnknownRecord(f"{body.endpoint!r:.200} is not an endpoint{of_provider}. GET /admin/v1/fleet lists all.")
        for provider, address in found:
            await nodes.set_drained(call.connection, provider, address, drained=body.drained, author=call.author)
        return Answer(Drained([DrainedEndpoint(provider, address, body.drained) for provider, address in found]))


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    tag = "Engines"
    handlers = FleetHandlers(gateway)
    return [
        Operation(
            method="GET",
            path="/fleet",
            id="get_fleet",
            tag=tag,
            summary="Show endpoints, registered nodes, what is drained and what waits",
            permission="config:read",
            access="memory",
            query=EndpointQuery,
            response=Fleet,
            commands=(Command(name="engines fleet"),),
            handler=handlers.show,
        ),
        Operation(
            method="POST",
            path="/fleet/drain",
            id="drain_endpoint",
            tag=tag,
            summary="Take an endpoint out of rotation, or put it back",
            description="Requests in flight go on to their end.",
            permission="engines:operate",
            access="write",
            body=Drain,
            response=Drained,
            errors={404: "There is no such endpoint."},
            example={"endpoint": "http://10.0.0.5:8000", "drained": True},
            commands=(
                Command(
                    name="engines drain",
                    summary="Take ENDPOINT out of rotation.",
                    options=_ENDPOINT,
                    fixed={"drained": True},
                    columns=_DRAINED,
                ),
                Command(
                    name="engines undrain",
                    summary="Put ENDPOINT back into rotation.",
                    help="",
                    options=_ENDPOINT,
                    fixed={"drained": False},
                    columns=_DRAINED,
                ),
            ),
            handler=handlers.drain,
        ),
    ]
