"""Engines over HTTP, for admin keys: what each endpoint is, and operations on it.

/admin/v1/endpoints, /admin/v1/endpoints/metrics and /admin/v1/models/{model}/engine/{operation}.
"""

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
from litestar import HttpMethod, Request, Response, Router, get, route

from app.api.authentication import authenticate_scope
from app.api.path_segments import decode_slashes
from app.api.response_headers import new_request_headers
from app.api.rest.request_parsing import parse_admin_body, reject_unknown_parameters
from app.domain import Snapshot
from app.gateway.credentials.client import CredentialClient
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.operations import OperationResult, Operations, supported_operations, worst_status
from app.gateway.serve import Gateway
from providers.canonical.errors import InvalidRequest, UnknownRoute
from providers.canonical.rate_limit_headers import RateLimit
from providers.transport.transport import AddressConnections

log = logging.getLogger(__name__)

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def routes(gateway: Gateway) -> Router:
    operations = Operations(gateway.fleet, gateway.settings.total_timeout_s, gateway.settings.max_reply_bytes)

    @get("/endpoints")
    async def list_endpoints(request: Request[Any, Any, Any]) -> dict[str, Any]:
        reject_unknown_parameters(request, ())
        return {"data": describe_endpoints(gateway)}

    @get("/endpoints/metrics")
    async def pass_metrics(request: Request[Any, Any, Any], endpoint: str) -> Response[Any]:
        reject_unknown_parameters(request, ("endpoint",))
        outcome = await operations.metrics(endpoint)
        if outcome.error is not None:
            return _respond("metrics", [outcome])
        return Response(str(outcome.response or ""), media_type=_PROMETHEUS)

    # The name of a model may contain slashes.
    @route("/models/{path:path}", http_method=[HttpMethod.GET, HttpMethod.POST], status_code=200)
    async def operate(request: Request[Any, Any, Any], path: str) -> Response[Any]:
        model, separator, name = path.removeprefix("/").rpartition("/engine/")
        model = decode_slashes(model)
        if not separator or not model or not name:
            raise UnknownRoute(f"There is nothing at {request.method} {request.url.path}. /docs lists the routes.")
        is_read = request.method == "GET"
        arguments = dict(request.query_params) if is_read else _parse_arguments(await request.body())
        outcomes = await operations.run(gateway.snapshot_cache.snapshot, model, name, arguments, read_only=is_read)
        if not is_read:
            caller = await authenticate_scope(gateway.snapshot_cache, request.scope)
            caller_fields = {"key": f"nx-{caller.prefix.removeprefix('nx-')}", "team": caller.team}
            # Names of arguments only: their values may hold secrets, or gigabytes of weights.
            operation_fields = {
                "operation": name,
                "model": model,
                "arguments": sorted(arguments),
                "statuses": {each.endpoint: each.status for each in outcomes},
            }
            log.info("an operation was run on an engine", extra={**caller_fields, **operation_fields})
        return _respond(name, outcomes)

    return Router("/", route_handlers=[list_endpoints, pass_metrics, operate])


def describe_endpoints(gateway: Gateway) -> list[dict[str, Any]]:
    """Every endpoint of the table in force, as this process knows it."""
    snapshot = gateway.fleet.table.snapshot
    models_by_endpoint = _served_models(gateway, snapshot)
    connections = gateway.transport.connections()
    return [
        _endpoint_to_json(each, snapshot, models_by_endpoint.get(id(each), []), connections, gateway.transport.connections_per_origin)
        for each in gateway.fleet.endpoints
    ]


def _parse_arguments(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        return {}
    arguments = parse_admin_body(raw, dict[str, Any])
    if not isinstance(arguments.get("endpoint", ""), str):
        raise InvalidRequest("`endpoint` must be an address, as GET /admin/v1/endpoints lists it.", param="endpoint")
    return arguments


def _respond(name: str, outcomes: list[OperationResult]) -> Response[Any]:
    """One response for all endpoints, with the worst status, and an error in the usual shape if any failed."""
    status = worst_status(outcomes)
    body: dict[str, Any] = {"operation": name, "data": [_outcome_to_json(outcome) for outcome in outcomes]}
    if status != 200:
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        worst_outcome = next(outcome for outcome in failed if outcome.status == status)
        failed_share = f"{len(failed)} of {len(outcomes)} endpoints failed. " if len(outcomes) > 1 else ""
        kind = "unsupported" if status == 501 else "invalid_request_error" if status < 500 else "backend_error"
        body["error"] = {"message": f"{failed_share}{worst_outcome.error}", "type": kind, "code": status, "param": None}
    return Response(body, status_code=status, headers={**new_request_headers(), "cache-control": "no-store"})


def _outcome_to_json(outcome: OperationResult) -> dict[str, Any]:
    fields = msgspec.structs.asdict(outcome)
    return {key: value for key, value in fields.items() if key != ("response" if outcome.error is not None else "error")}


def _connections_to_json(endpoint: Endpoint, connections: Mapping[str, AddressConnections], max_connections: int) -> dict[str, int]:
    """Those to the endpoint's host and port, which other endpoints may share."""
    url = httpx.URL(endpoint.base_url)
    current = connections.get(f"{url.scheme}://{url.netloc.decode()}", AddressConnections(0, 0, 0, max_connections))
    return {"busy": current.busy, "idle": current.idle, "max": current.max_busy, "waiting": current.waiting}


def _served_models(gateway: Gateway, snapshot: Snapshot) -> dict[int, list[str]]:
    names_by_endpoint: dict[int, list[str]] = {}
    for name, model in snapshot.models.items():
        for target in model.targets:
            for endpoint in gateway.fleet.table.endpoints_of(target):
                names = names_by_endpoint.setdefault(id(endpoint), [])
                if name not in names:
                    names.append(name)
    return names_by_endpoint


def _endpoint_to_json(
    endpoint: Endpoint, snapshot: Snapshot, serves: list[str], connections: Mapping[str, AddressConnections], max_connections: int
) -> dict[str, Any]:
    probe_result = endpoint.probe_result
    open_for_s = endpoint.breaker.open_until - time.monotonic()
    configured = endpoint.config.adapter
    key = endpoint.provider.configured_as, endpoint.base_url
    is_other = endpoint.provider.name != configured and configured != "auto"
    return {
        "provider": endpoint.provider.configured_as,
        "endpoint": endpoint.base_url,
        "adapter": configured,
        "engine": probe_result and probe_result.engine,
        "version": probe_result and probe_result.version,
        "router": probe_result and probe_result.router,
        "served_as": endpoint.provider.name,
        "warning": f"configured as {configured}, but served as the {endpoint.provider.name} that it is" if is_other else None,
        "models": None
        if probe_result is None or probe_result.models is None
        else [msgspec.structs.asdict(model) for model in probe_result.models],
        "health": endpoint.health,
        "last_response_at": None if endpoint.answered_s is None else datetime.fromtimestamp(endpoint.answered_s, UTC).isoformat(),
        "breaker": "open" if open_for_s > 0 else "closed",
        "failures": endpoint.breaker.consecutive_failures,
        "in_flight": endpoint.load.in_flight,
        "load": _load_to_json(endpoint),
        "drained": key in snapshot.drained,
        "registered": any((node.provider, node.address) == key for node in snapshot.nodes),
        "connections": _connections_to_json(endpoint, connections, max_connections),
        "credentials": [_credential_to_json(each) for each in endpoint.credential_pool.gateway_clients],
        "serves": serves,
        "operations": supported_operations(endpoint.provider.name),
    }


def _load_to_json(endpoint: Endpoint) -> dict[str, Any]:
    """As this process sees it: see app/gateway/fleet/endpoint_load.py."""
    load, now = endpoint.load, time.monotonic()
    return {
        "queued_tokens": load.queued_tokens,
        "waiting_streams": load.waiting,
        "waiting_s": round(now - load.waiting_since, 1) if load.waiting else 0.0,
        "others_tokens": load.others_tokens,
        "score": round(load.tokens(now)),
    }


def _credential_to_json(client: CredentialClient) -> dict[str, Any]:
    now = time.monotonic()
    return {
        "reference": client.reference,
        "cooldown_s": _remaining_s(client.cooldown.until, now),
        "refused": client.cooldown.refused,
        "models": {
            model: {
                "cooldown_s": _remaining_s(until, now),
                "rate_limits": None if rate_limits is None else [_rate_limit_to_json(each, now) for each in rate_limits.limits],
            }
            for model, (until, rate_limits) in client.cooldown.models.items()
        },
    }


def _remaining_s(until: float, now: float) -> float:
    return round(max(0.0, until - now), 1)


def _rate_limit_to_json(rate_limit: RateLimit, now: float) -> dict[str, Any]:
    resets_s = None if rate_limit.resets_at is None else _remaining_s(rate_limit.resets_at, now)
    return {"resource": rate_limit.resource, "limit": rate_limit.limit, "remaining": rate_limit.remaining, "resets_s": resets_s}
