"""Engines over HTTP, for admin keys: what each endpoint is, and what it can be told to do.

/admin/v1/endpoints, /admin/v1/endpoints/metrics and /admin/v1/models/{model}/engine/{operation}.
"""

import logging
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import HttpMethod, Request, Response, Router, get, route

from app import uuid7
from app.api.admin.body import only, read
from app.api.auth import whose_scope
from app.api.replies import request_headers
from app.domain import Directory
from app.gateway.fleet import Endpoint
from app.gateway.identity import Identity
from app.gateway.operations import Operations, Outcome, offered_by, worst
from app.gateway.serve import Gateway
from providers.allowance import Room
from providers.errors import Malformed, UnknownRoute

log = logging.getLogger(__name__)

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def routes(gateway: Gateway) -> Router:
    operations = Operations(gateway.fleet, gateway.settings.total_timeout_s, gateway.settings.max_reply_bytes)

    @get("/endpoints")
    async def list_endpoints(request: Request[Any, Any, Any]) -> dict[str, Any]:
        only(request, ())
        directory = gateway.live.directory
        serves = _served(gateway, directory)
        return {"data": [_told(each, serves.get(id(each), [])) for each in gateway.fleet.endpoints]}

    @get("/endpoints/metrics")
    async def pass_metrics(request: Request[Any, Any, Any], endpoint: str) -> Response[Any]:
        only(request, ("endpoint",))
        outcome = await operations.metrics(endpoint)
        if outcome.error is not None:
            return _answer("metrics", [outcome])
        return Response(str(outcome.answer or ""), media_type=_PROMETHEUS)

    # The name of a model may hold slashes.
    @route("/models/{place:path}", http_method=[HttpMethod.GET, HttpMethod.POST], status_code=200)
    async def operate(request: Request[Any, Any, Any], place: str) -> Response[Any]:
        model, named, name = place.removeprefix("/").rpartition("/engine/")
        if not named or not model or not name:
            raise UnknownRoute(f"There is nothing at {request.method} {request.url.path}. The routes are told at /docs.")
        asks = request.method == "GET"
        said = dict(request.query_params) if asks else _arguments(await request.body())
        outcomes = await operations.operate(gateway.live.directory, model, name, said, only_asks=asks)
        if not asks:
            caller = await whose_scope(gateway.live, request.scope)
            who = {"key": f"nx-{caller.prefix.removeprefix('nx-')}", "team": caller.team}
            # What was said is not told: it may hold secrets, or gigabytes of weights.
            what = {
                "operation": name,
                "model": model,
                "arguments": sorted(said),
                "statuses": {each.endpoint: each.status for each in outcomes},
            }
            log.info("an engine was told to do something", extra={**who, **what})
        return _answer(name, outcomes)

    return Router("/", route_handlers=[list_endpoints, pass_metrics, operate])


def _arguments(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        return {}
    said = read(raw, dict[str, Any])
    if not isinstance(said.get("endpoint", ""), str):
        raise Malformed("`endpoint` must be an address, as GET /admin/v1/endpoints lists it.", param="endpoint")
    return said


def _answer(name: str, outcomes: list[Outcome]) -> Response[Any]:
    """One answer for all endpoints: with the worst status, and an error as our other routes tell it, if any failed."""
    status = worst(outcomes)
    body: dict[str, Any] = {"operation": name, "data": [_shown(outcome) for outcome in outcomes]}
    if status != 200:
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        worst_of_all = next(outcome for outcome in failed if outcome.status == status)
        of = f"{len(failed)} of {len(outcomes)} endpoints failed. " if len(outcomes) > 1 else ""
        kind = "unsupported" if status == 501 else "invalid_request_error" if status < 500 else "backend_error"
        body["error"] = {"message": f"{of}{worst_of_all.error}", "type": kind, "code": status, "param": None}
    headers = {key.decode(): value.decode() for key, value in request_headers(uuid7.mint())}
    return Response(body, status_code=status, headers={**headers, "cache-control": "no-store"})


def _shown(outcome: Outcome) -> dict[str, Any]:
    shown = msgspec.structs.asdict(outcome)
    return {key: value for key, value in shown.items() if key != ("answer" if outcome.error is not None else "error")}


def _served(gateway: Gateway, directory: Directory) -> dict[int, list[str]]:
    serves: dict[int, list[str]] = {}
    for name, model in directory.models.items():
        for target in model.targets:
            for endpoint in gateway.fleet.of(target):
                names = serves.setdefault(id(endpoint), [])
                if name not in names:
                    names.append(name)
    return serves


def _told(endpoint: Endpoint, serves: list[str]) -> dict[str, Any]:
    found = endpoint.found
    shut_s = endpoint.shut_until - time.monotonic()
    configured = endpoint.config.adapter
    is_other = endpoint.provider.name != configured and configured != "auto"
    return {
        "provider": endpoint.provider.configured_as,
        "endpoint": endpoint.base_url,
        "adapter": configured,
        "engine": found and found.engine,
        "version": found and found.version,
        "router": found and found.router,
        "served_as": endpoint.provider.name,
        "warning": f"configured as {configured}, and served as the {endpoint.provider.name} that it is" if is_other else None,
        "models": None if found is None or found.models is None else [msgspec.structs.asdict(model) for model in found.models],
        "health": endpoint.health,
        "answered_at": None if endpoint.answered_s is None else datetime.fromtimestamp(endpoint.answered_s, UTC).isoformat(),
        "breaker": "open" if shut_s > 0 else "closed",
        "faults": endpoint.faults,
        "in_flight": endpoint.in_flight,
        "credentials": [_credential(each) for each in endpoint.identities.kept],
        "serves": serves,
        "operations": offered_by(endpoint.provider.name),
    }


def _credential(identity: Identity) -> dict[str, Any]:
    now = time.monotonic()
    return {
        "reference": identity.reference,
        "rests_s": _left(identity.cooldown.until, now),
        "refused": identity.cooldown.refused,
        "models": {
            model: {
                "rests_s": _left(until, now),
                "allowance": None if allowance is None else [_room(each, now) for each in allowance.rooms],
            }
            for model, (until, allowance) in identity.cooldown.models.items()
        },
    }


def _left(until: float, now: float) -> float:
    return round(max(0.0, until - now), 1)


def _room(room: Room, now: float) -> dict[str, Any]:
    resets_s = None if room.resets_at is None else _left(room.resets_at, now)
    return {"resource": room.resource, "limit": room.limit, "remaining": room.remaining, "resets_s": resets_s}
