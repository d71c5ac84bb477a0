"""The state of each endpoint, as this process sees it: for /admin/v1/endpoints and /admin/v1/fleet."""

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

import httpx2
from msgspec import Meta, Struct

from app.domain.snapshot import Snapshot
from app.gateway.credentials.client import CredentialClient
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.operations import supported_operations
from app.gateway.pipeline.gateway import Gateway
from app.store.postgres.paging import MAX_PAGE_ROWS, After, Limit, Page, cursor_scope, read_cursor, write_cursor
from providers.canonical.rate_limit_headers import RateLimit
from providers.transport.transport import AddressConnections


class EndpointQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = MAX_PAGE_ROWS
    after: After | None = None
    sort: Literal["provider"] = "provider"
    provider: Annotated[str, Meta(description="Only of this provider.")] | None = None


class EngineModel(Struct, frozen=True):
    """A model as the engine lists it. `parent`: of a LoRA adapter, the model that it adapts."""

    id: str
    context_length: int | None
    parent: str | None


class EndpointLoad(Struct, frozen=True):
    """See docs/fleet.md."""

    queued_tokens: int
    waiting_streams: int
    waiting_s: float
    others_tokens: int
    score: int


class EndpointConnections(Struct, frozen=True):
    """The connections to the endpoint's host and port, which other endpoints may share."""

    busy: int
    idle: int
    max: int
    waiting: int


class RemainingRate(Struct, frozen=True):
    """A rate limit of the host's own, with what is left of it as the host reported."""

    resource: str
    limit: float | None
    remaining: float | None
    resets_s: float | None


class ModelCredential(Struct, frozen=True):
    """The state of a credential with one model of the host. It is not used for another `cooldown_s`."""

    cooldown_s: float
    rate_limits: Sequence[RemainingRate] | None


class EndpointCredential(Struct, frozen=True):
    """The state of a credential. `refused` means that the host did not accept it."""

    reference: str | None
    cooldown_s: float
    refused: bool
    models: Mapping[str, ModelCredential]


class EndpointState(Struct, frozen=True):
    """An endpoint. `serves`: the models that callers may use it by. null in what the engine reports: it is not known.

    `busy`: for how many seconds it gets no requests for a model, as its 503 with Retry-After said.
    """

    provider: str
    endpoint: str
    adapter: str
    engine: str | None
    version: str | None
    router: str | None
    served_as: str
    warning: str | None
    models: Sequence[EngineModel] | None
    health: str
    last_response_at: str | None
    breaker: Literal["open", "closed"]
    failures: int
    busy: Mapping[str, float]
    in_flight: int
    load: EndpointLoad
    drained: bool
    registered: bool
    connections: EndpointConnections
    credentials: Sequence[EndpointCredential]
    serves: Sequence[str]
    operations: Sequence[str]


def page_endpoints(gateway: Gateway, query: EndpointQuery) -> Page[EndpointState]:
    """Endpoints of the table in force, by provider and address."""
    snapshot = gateway.fleet.table.snapshot

    def key(endpoint: Endpoint) -> tuple[str, str]:
        return endpoint.provider.configured_as, endpoint.base_url

    endpoints = sorted((each for each in gateway.fleet.endpoints if query.provider in (None, key(each)[0])), key=key)
    start = 0
    if query.after is not None:
        provider, address = read_cursor(query.after, cursor_scope(query), [str, str])
        start = bisect_right(endpoints, (provider, address), key=key)
    shown = endpoints[start : start + query.limit]
    models_by_endpoint = _served_models(gateway, snapshot)
    connections, most = gateway.transport.connections(), gateway.transport.connections_per_origin
    states = [_to_state(each, snapshot, models_by_endpoint.get(id(each), []), connections, most) for each in shown]
    more = len(endpoints) > start + query.limit
    return Page(states, write_cursor(cursor_scope(query), key(shown[-1])) if more else None)


def _served_models(gateway: Gateway, snapshot: Snapshot) -> dict[int, list[str]]:
    names_by_endpoint: dict[int, list[str]] = {}
    for name, model in snapshot.models.items():
        for target in model.targets:
            for endpoint in gateway.fleet.table.endpoints_of(target):
                names = names_by_endpoint.setdefault(id(endpoint), [])
                if name not in names:
                    names.append(name)
    return names_by_endpoint


def _to_state(
    endpoint: Endpoint, snapshot: Snapshot, serves: list[str], connections: Mapping[str, AddressConnections], max_connections: int
) -> EndpointState:
    probed = endpoint.probe_result
    configured = endpoint.config.adapter
    key = endpoint.provider.configured_as, endpoint.base_url
    models = None if probed is None or probed.models is None else probed.models
    return EndpointState(
        provider=endpoint.provider.configured_as,
        endpoint=endpoint.base_url,
        adapter=configured,
        engine=probed and probed.engine,
        version=probed and probed.version,
        router=probed and probed.router,
        served_as=endpoint.provider.name,
        warning=_warning(endpoint),
        models=None if models is None else [EngineModel(each.id, each.context_length, each.parent) for each in models],
        health=endpoint.health,
        last_response_at=None if endpoint.answered_s is None else datetime.fromtimestamp(endpoint.answered_s, UTC).isoformat(),
        breaker="open" if endpoint.breaker.open_until > time.monotonic() else "closed",
        failures=endpoint.breaker.consecutive_failures,
        busy={model: round(left_s, 1) for model, left_s in endpoint.busy_times.models().items()},
        in_flight=endpoint.load.in_flight,
        load=_to_load(endpoint),
        drained=key in snapshot.drained,
        registered=any((node.provider, node.address) == key for node in snapshot.nodes),
        connections=_to_connections(endpoint, connections, max_connections),
        credentials=[_to_credential(each) for each in endpoint.credential_pool.gateway_clients],
        serves=serves,
        operations=supported_operations(endpoint.provider.name),
    )


def _warning(endpoint: Endpoint) -> str | None:
    configured = endpoint.config.adapter
    if endpoint.health == "no_api":
        return "something answers, but there is no such API there: correct the base_url of the provider, or the endpoint of the target"
    if endpoint.health == "refused":
        reason = "does not accept our credential" if endpoint.has_own_credential else "requires a credential, and the provider has none"
        return f"it {reason}"
    if endpoint.provider.name != configured and configured != "auto":
        return f"configured as {configured}, but served as the {endpoint.provider.name} that it is"
    return None


def _to_load(endpoint: Endpoint) -> EndpointLoad:
    load, now = endpoint.load, time.monotonic()
    waiting_s = round(now - load.waiting_since, 1) if load.waiting else 0.0
    return EndpointLoad(load.queued_tokens, load.waiting, waiting_s, load.others_tokens, round(load.tokens(now)))


def _to_connections(endpoint: Endpoint, connections: Mapping[str, AddressConnections], max_connections: int) -> EndpointConnections:
    url = httpx2.URL(endpoint.base_url)
    current = connections.get(f"{url.scheme}://{url.netloc.decode()}", AddressConnections(0, 0, 0, max_connections))
    return EndpointConnections(current.busy, current.idle, current.max_busy, current.waiting)


def _to_credential(client: CredentialClient) -> EndpointCredential:
    now = time.monotonic()
    models = {
        model: ModelCredential(
            _remaining_s(until, now), None if rate_limits is None else [_to_rate(each, now) for each in rate_limits.limits]
        )
        for model, (until, rate_limits) in client.cooldown.models.items()
    }
    return EndpointCredential(client.reference, _remaining_s(client.cooldown.until, now), client.cooldown.refused, models)


def _remaining_s(until: float, now: float) -> float:
    return round(max(0.0, until - now), 1)


def _to_rate(rate_limit: RateLimit, now: float) -> RemainingRate:
    resets_s = None if rate_limit.resets_at is None else _remaining_s(rate_limit.resets_at, now)
    return RemainingRate(rate_limit.resource, rate_limit.limit, rate_limit.remaining, resets_s)
