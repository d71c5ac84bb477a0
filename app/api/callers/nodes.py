"""Nodes: engines that register themselves, by the API of LMDeploy's proxy: an api_server started with --proxy-url joins unchanged.

/nodes/add, /nodes/remove, /nodes/status, /nodes/terminate, /nodes/terminate_all, /distserve/connection_warmup, /distserve/gc. Errors have
FastAPI's shape, as LMDeploy's own. Source: lmdeploy/serve/proxy/proxy.py (0.16 and 0.18), read 2026-11.
"""

import asyncio
import hmac
import logging
from collections.abc import Sequence
from typing import Any, Literal

import httpx2
import msgspec
from litestar import Request, Response, Router, get, post
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.callers.authentication import authenticate_admin
from app.api.callers.caller_route import OBJECT, TEXT, Access, CallerRoute, Schema, object_with
from app.api.callers.node_sender import MAX_URL_CHARS, NodeSender, basic_credential, check_address
from app.api.server.client_ip import client_address
from app.api.server.response_headers import error_headers, new_request_headers, to_litestar_headers
from app.domain.routing import Node
from app.domain.snapshot import Snapshot
from app.gateway.fleet.fleet import Fleet
from app.gateway.fleet.probe import send_probe
from app.gateway.pipeline.gateway import Gateway
from app.store.configuration import nodes
from providers import probing
from providers.canonical.errors import CallerCredentialRequired, InvalidRequest, NarthexError, NotAllowed, Unavailable

log = logging.getLogger(__name__)

_MAX_MODELS = 1_000
_MAX_MODEL_CHARS = 500
_PROBE_TIMEOUT = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}
_HYBRID = 1
_HOW_TO_SEND = "Send it as the password of the proxy URL, http://node:SECRET@gateway, or use an admin key."
_ANY_PROVIDER = ("node", "")


class NodeStatus(Struct):
    """The status that a node reports.

    `role` is 1 if it serves whole requests, 2 if it only reads prompts, and 3 if it only writes responses.
    """

    models: list[str] | None = None
    role: int = _HYBRID
    speed: float | None = None
    unfinished: int = 0
    latency: list[Any] = []


class NodeBody(Struct):
    url: str
    status: NodeStatus | None = None


def routes(gateway: Gateway, database: AsyncEngine) -> Router:
    fleet, settings = gateway.fleet, gateway.settings

    async def identify(request: Request[Any, Any, Any]) -> NodeSender:
        """Identifies the sender by the secret of nodes, or else by an admin key.

        Raises CallerCredentialRequired, NotAllowed.
        """
        user, secret = basic_credential(request.headers.get("authorization", ""))
        if secret is not None:
            known = settings.node_secret.parsed
            if not known:
                raise NotAllowed("Nodes may not register here: NARTHEX_NODE_SECRET is not set.")
            if not any([hmac.compare_digest(secret.encode(), each.encode()) for each in known]):
                raise CallerCredentialRequired(f"The secret of nodes is not valid. {_HOW_TO_SEND}")
            client = request.scope["client"]
            peer = client_address(client[0] if client else None, list(request.scope["headers"]), gateway.snapshot_cache.trusted_proxies)
            if peer is None:
                raise NotAllowed("The address of the node is unknown, so it cannot register itself: use an admin key.")
            return NodeSender(str(getattr(peer, "ipv4_mapped", None) or peer), "" if user in _ANY_PROVIDER else user)
        if "authorization" not in request.headers and "x-api-key" not in request.headers:
            raise CallerCredentialRequired(f"No secret of nodes was sent. {_HOW_TO_SEND}")
        await authenticate_admin(gateway.snapshot_cache, request.scope)
        return NodeSender(None, "")

    @post("/nodes/add", status_code=200)
    async def add_node(request: Request[Any, Any, Any]) -> Response[str]:
        sender = await identify(request)
        body = _parse_body(await request.body())
        address = await check_address(fleet, body.url, sender, settings.node_networks.parsed)
        status = body.status or NodeStatus()
        if status.role != _HYBRID:
            raise InvalidRequest(
                f"A node of role {status.role} cannot register here, only one of role 1 (Hybrid): the gateway does not split prompts from"
                " responses. Start the engine with `--role Hybrid`, or register these nodes with LMDeploy's own proxy (`lmdeploy serve"
                " proxy --serving-strategy DistServe`) and make that proxy the `base_url` of a provider with the adapter `lmdeploy`."
            )
        models = _check_models(status.models or await _list_models(fleet, address))
        provider = _find_provider(gateway.snapshot_cache.snapshot, models, sender.provider)
        speed = status.speed if status.speed is not None and 0 < status.speed < float("inf") else None
        try:
            await nodes.add_node(database, Node(provider, address, models, speed))
        except nodes.TooManyNodes:
            raise Unavailable(f"{nodes.MAX_NODES} nodes are registered: no more are taken.", retry_after_s=60) from None
        log.info("a node has registered", extra={"endpoint": address, "provider": provider, "models": models[:20]})
        return _respond("Added successfully")

    @post("/nodes/remove", status_code=200)
    async def remove_node(request: Request[Any, Any, Any]) -> Response[str]:
        sender = await identify(request)
        address = await check_address(fleet, _parse_body(await request.body()).url, sender, settings.node_networks.parsed)
        registered = [(node.provider, node.address) for node in gateway.snapshot_cache.snapshot.nodes if node.address == address]
        # A node that has just registered may not be in this process's snapshot yet.
        candidates = registered or [(name, address) for name in _accepting_providers(gateway.snapshot_cache.snapshot)]
        if not await nodes.remove_nodes(database, candidates):
            raise InvalidRequest(f"{address} is not registered.", param="url")
        log.info("a node was removed", extra={"endpoint": address})
        return _respond("Deleted successfully")

    @get("/nodes/status")
    async def show_status(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        await authenticate_admin(gateway.snapshot_cache, request.scope)
        table = fleet.table
        statuses: dict[str, Any] = {}
        for node in table.snapshot.nodes:
            endpoint = table.endpoints.get((node.provider, node.address))
            in_flight = 0 if endpoint is None else endpoint.load.in_flight
            statuses[node.address] = {"models": node.models, "role": _HYBRID, "speed": node.speed, "unfinished": in_flight, "latency": []}
        return _respond(statuses)

    @post("/nodes/terminate", status_code=200)
    async def terminate_node(request: Request[Any, Any, Any]) -> Response[str]:
        await authenticate_admin(gateway.snapshot_cache, request.scope)
        url = _parse_body(await request.body()).url.rstrip("/")
        taken = [] if "\0" in url else await nodes.take_nodes(database, url)
        if not taken:
            raise InvalidRequest(f"{url[:MAX_URL_CHARS]!r} is not registered: GET /nodes/status lists all nodes.", param="url")
        failed = await _terminate(fleet, taken)
        if failed:
            raise Unavailable(f"{url} was removed, but did not terminate: {failed[0]}")
        return _respond("Terminated successfully")

    @get("/nodes/terminate_all")
    async def terminate_all_nodes(request: Request[Any, Any, Any]) -> Response[str]:
        await authenticate_admin(gateway.snapshot_cache, request.scope)
        failed = await _terminate(fleet, await nodes.take_nodes(database, None))
        if failed:
            raise Unavailable(f"All nodes were removed, but {len(failed)} did not terminate: {'; '.join(failed[:5])}")
        return _respond("All nodes terminated successfully")

    @post("/distserve/connection_warmup", status_code=200)
    async def warm_up_connections(request: Request[Any, Any, Any]) -> Response[dict[str, bool]]:
        """Probes every node now, which opens a connection to each. LMDeploy connects nodes that read prompts with those that write."""
        await authenticate_admin(gateway.snapshot_cache, request.scope)
        table = fleet.table
        endpoints = [table.endpoints.get((node.provider, node.address)) for node in table.snapshot.nodes]
        await asyncio.gather(*(fleet.reprobe(endpoint) for endpoint in endpoints if endpoint is not None))
        return _respond({"SUCCESS": True})

    @post("/distserve/gc", status_code=200)
    async def collect_garbage(request: Request[Any, Any, Any]) -> Response[dict[str, bool]]:
        """There is nothing to free: the gateway moves no cache blocks between nodes."""
        await authenticate_admin(gateway.snapshot_cache, request.scope)
        return _respond({"SUCCESS": True})

    handlers = [
        *(add_node, remove_node, show_status, terminate_node, terminate_all_nodes),
        *(warm_up_connections, collect_garbage),
    ]
    return Router("/", route_handlers=handlers, exception_handlers={NarthexError: _write_error})


def _describe(
    method: Literal["GET", "POST"], path: str, id: str, summary: str, response: Schema, *, body: bool = False, access: Access = "admin"
) -> CallerRoute:
    return CallerRoute(
        method=method,
        path=path,
        id=id,
        tag="Nodes",
        summary=summary,
        access=access,
        body=[NodeBody] if body else (),
        example={"url": "http://10.0.0.5:23333", "status": {"models": ["qwen3-8b"]}} if body else None,
        response=response,
        errors=(422,) if body else (),
        error_schema="NodeError",
    )


_SUCCESS = object_with(SUCCESS={"type": "boolean"})
DESCRIPTIONS: Sequence[CallerRoute] = (
    _describe("POST", "/nodes/add", "add_node", "Register an engine", TEXT, body=True, access="node"),
    _describe("POST", "/nodes/remove", "remove_node", "Remove a registered engine", TEXT, body=True, access="node"),
    _describe("GET", "/nodes/status", "list_nodes", "List registered engines", OBJECT),
    _describe("POST", "/nodes/terminate", "terminate_node", "Remove an engine and end its process", TEXT, body=True),
    _describe("GET", "/nodes/terminate_all", "terminate_all_nodes", "Remove all registered engines and end their processes", TEXT),
    _describe("POST", "/distserve/connection_warmup", "warm_up_nodes", "Probe every registered engine now", _SUCCESS),
    _describe("POST", "/distserve/gc", "collect_node_garbage", "Do nothing: there is no cache to free", _SUCCESS),
)


def _write_error(request: Request[Any, Any, Any], error: NarthexError) -> Response[dict[str, Any]]:
    if isinstance(error, InvalidRequest) and error.code == "invalid_body":
        error.status = 422
        detail: Any = [{"loc": ["body", *([error.param] if error.param else [])], "msg": error.message, "type": "value_error"}]
    else:
        detail = error.message
    headers = {**to_litestar_headers(error_headers(error)), **new_request_headers()}
    if isinstance(error, CallerCredentialRequired):
        headers["www-authenticate"] = 'Basic realm="nodes"'
    return Response({"detail": detail}, status_code=error.status, headers=headers)


def _respond(content: Any) -> Response[Any]:
    return Response(msgspec.json.encode(content), media_type="application/json", headers=new_request_headers())


def _parse_body(raw: bytes) -> NodeBody:
    try:
        return msgspec.json.decode(raw, type=NodeBody)
    except (msgspec.DecodeError, RecursionError) as fault:
        invalid = InvalidRequest(f"{fault}.")
        invalid.code = "invalid_body"
        raise invalid from None


def _check_models(models: Sequence[str]) -> tuple[str, ...]:
    """Raises InvalidRequest."""
    if len(models) > _MAX_MODELS or not all(0 < len(model) <= _MAX_MODEL_CHARS and model.isprintable() for model in models):
        raise InvalidRequest(f"`status.models` must be up to {_MAX_MODELS} names of models.", param="status.models")
    return tuple(dict.fromkeys(models))


async def _list_models(fleet: Fleet, address: str) -> list[str]:
    """The models that a node serves, for one that does not say so. Raises InvalidRequest."""
    request = httpx2.Request("GET", f"{address}{probing.MODELS_PATH}", extensions={"timeout": _PROBE_TIMEOUT})
    try:
        response = await send_probe(fleet.transport, request)
    except httpx2.TransportError as fault:
        raise InvalidRequest(f"{address} does not answer ({type(fault).__name__}), and `status.models` is empty.", param="url") from None
    models = probing.identify_engine({probing.MODELS_PATH: response}).models if response.status == 200 else None
    if not models:
        raise InvalidRequest(f"{address}{probing.MODELS_PATH} lists no models (status {response.status}): is it an engine?", param="url")
    return [model.id for model in models]


def _accepting_providers(snapshot: Snapshot) -> list[str]:
    return [name for name, config in snapshot.providers.items() if config.accepts_nodes]


def _find_provider(snapshot: Snapshot, models: Sequence[str], named: str) -> str:
    """The provider that a node joins. Raises InvalidRequest."""
    accepting = _accepting_providers(snapshot)
    if named and named not in accepting:
        raise InvalidRequest(f"The user of the proxy URL is {named!r:.100}, which is no provider with `accepts_nodes`.")
    wanted = {
        name: {target.model for model in snapshot.models.values() for target in model.targets if target.provider == name}
        for name in ([named] if named else accepting)
    }
    serving = [name for name, served in wanted.items() if not served.isdisjoint(models)]
    if len(serving) == 1:
        return serving[0]
    listed = ", ".join(models[:10])
    if serving:
        raise InvalidRequest(f"Several providers could take {listed}: {', '.join(serving)}. Name one as the user of the proxy URL.")
    if not accepting:
        raise InvalidRequest("No provider has `accepts_nodes = true`.")
    known = ", ".join(sorted({model for served in wanted.values() for model in served})) or "none yet"
    raise InvalidRequest(f"No target takes a node with the models {listed}. Targets that take nodes have: {known}.", param="status.models")


async def _terminate(fleet: Fleet, taken: Sequence[tuple[str, str]]) -> list[str]:
    """Requests each of these nodes, by provider and address, to terminate. What went wrong, by node."""
    endpoints = [fleet.table.endpoints.get(each) for each in taken]
    failures: list[str] = []
    for (_, address), endpoint in zip(taken, endpoints, strict=True):
        request = httpx2.Request("GET", f"{address}/terminate", extensions={"timeout": _PROBE_TIMEOUT})
        if endpoint is not None:
            request = endpoint.probe_request("/terminate")
        try:
            response = await send_probe(fleet.transport, request)
            if response.status != 200:
                failures.append(f"{address}: status {response.status}")
        except httpx2.TransportError as fault:
            failures.append(f"{address}: {type(fault).__name__}")
    return failures
