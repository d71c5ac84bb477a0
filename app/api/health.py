"""GET /health/live and /health/ready: whether this process lives, and whether it takes requests.

/status and /health are those of TensorZero.
"""

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from litestar import HttpMethod, Response, Router, route

from app.api.callers.caller_route import TEXT, CallerRoute, object_with
from app.gateway.pipeline.gateway import Gateway
from app.process.home_id import identify_home


def routes(gateway: Gateway) -> Router:
    home_id = identify_home(gateway.settings.home)
    version = importlib.metadata.version("narthex")

    # Some load balancers send HEAD.
    @route("/health/live", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def alive() -> dict[str, str]:
        return {"status": "alive"}

    @route("/health/ready", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def ready() -> Response[dict[str, Any]]:
        spool = gateway.spool.stats()
        body: dict[str, Any] = {
            "status": "draining" if gateway.draining else "ready",
            "home": home_id,
            "configuration": gateway.snapshot_cache.snapshot.version,
            "postgres": "connected" if gateway.snapshot_cache.connected else "unavailable: serving from the cached snapshot",
            "revocation_lag_s": round(gateway.snapshot_cache.revocation_lag_s, 1),
            "failing_tasks": {task.name: task.failure for task in gateway.background_tasks if task.failure is not None},
            "limits_refusing": None if gateway.limits.loss is None else gateway.limits.loss.summary(),
            "spool_bytes": spool.size_bytes,
            "records_lost": spool.lost_records,
        }
        return Response(body, status_code=503 if gateway.draining else 200)

    @route("/status", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def status() -> dict[str, str]:
        return {"status": "ok", "version": version, "config_hash": gateway.snapshot_cache.snapshot.hash}

    # TensorZero answers 503 while a store is away. This gateway serves without Postgres and Redis, and must stay in service then.
    @route("/health", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def health() -> Response[dict[str, str]]:
        body = {
            "gateway": "draining" if gateway.draining else "ok",
            "postgres": "ok" if gateway.snapshot_cache.connected else "error",
            "valkey": "ok" if gateway.limits.is_redis_up else "error",
        }
        return Response(body, status_code=503 if gateway.draining else 200)

    return Router("/", route_handlers=[alive, ready, status, health])


DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/health/live",
        id="check_liveness",
        tag="Operation",
        summary="Whether this process lives",
        access="public",
        response=object_with(status=TEXT),
    ),
    CallerRoute(
        method="GET",
        path="/health/ready",
        id="check_readiness",
        tag="Operation",
        summary="Whether this process takes requests",
        access="public",
        response=object_with(status=TEXT, home=TEXT, configuration={"type": "integer"}, postgres=TEXT),
        also={503: "It is draining: the same, with `status` as `draining`."},
    ),
    CallerRoute(
        method="GET",
        path="/health",
        id="tensorzero_health",
        tag="TensorZero",
        summary="Whether this process takes requests, and what it is connected to, in TensorZero's shape",
        access="public",
        response=object_with(gateway=TEXT, postgres=TEXT, valkey=TEXT),
        also={503: "It is draining: the same, with `gateway` as `draining`."},
    ),
    CallerRoute(
        method="GET",
        path="/status",
        id="tensorzero_status",
        tag="TensorZero",
        summary="That this process lives, its version and its configuration, in TensorZero's shape",
        access="public",
        response=object_with(status=TEXT, version=TEXT, config_hash=TEXT),
    ),
)
